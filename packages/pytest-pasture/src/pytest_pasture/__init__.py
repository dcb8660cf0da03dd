"""Workers of pytest-xdist that are forked from one process, which has collected and is sealed.

    plugin -> start -> nodes -> controller -> mold -> keeper -> waiting
                                              mold -> keeper -> recollection -> inputs
                                              mold -> worker -> isolation -> events -> gateway
                                              all -> collection, exits, lookout, cards, shared, keep

docs/pytest.md is the user's guide.
"""

from pytest_pasture.shared import pasture_service, pasture_shared

__all__ = ["pasture_service", "pasture_shared"]
