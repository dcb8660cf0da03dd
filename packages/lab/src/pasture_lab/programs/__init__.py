"""Programs that experiments run in processes of their own: JSON on standard output.

Started by path, so that what they measure holds no more of pasture than they import.
"""
