"""A collector for RPython whose marks lie outside the objects.

pypy/README.md says why and how. Python 2, as RPython is.
"""
