"""The command `pasture` and what it brings: it starts servers, and looks at them from outside.

Imports `pasture` and packages of PyPI. No module of `pasture` imports one of these, so that none
lies in a server or a program: tests/unit/test_seam.py holds that.
"""
