"""The engines that pasture seals: a row (`engines`), a class (`engine`), a module or folder each.

`pasture.serving` has what several of them need.
"""
