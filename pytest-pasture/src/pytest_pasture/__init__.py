"""Workers of pytest-xdist that are forked from one process, which has collected and is sealed.

    plugin -> nodes -> controller -> mold -> keeper -> again -> seen
                                     mold -> worker -> each -> ends, once, cards, control, keep

docs/pytest.md is the user's guide.
"""
