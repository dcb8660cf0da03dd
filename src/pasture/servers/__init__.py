"""The engines that pasture seals: a row (`engines`), a class (`engine`), a module or folder each.

What several of them need is in `pasture.serving`.
"""
