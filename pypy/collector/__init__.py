"""A collector for RPython whose marks lie outside the objects.

docs/internals/pypy.md says why and how. Python 2, as RPython is.
"""
