"""Workers of pytest-xdist that are forked from one process, which has collected and is sealed.

    plugin -> nodes -> controller -> mold -> worker -> each -> ends, once, cards, control

docs/pytest.md is the user's guide.
"""
