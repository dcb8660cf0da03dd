"""Where other users' files and words enter: read and written so that they cannot hurt.

`private_files` writes, `foreign_files` reads, `untrusted_text` shows.
"""
