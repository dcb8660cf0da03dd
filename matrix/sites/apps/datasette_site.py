"""Datasette over one database, with a root user whose token the session knows."""

import os

from datasette.app import Datasette


def make_app():
    """The application, as `datasette serve --root` makes it."""
    site = Datasette(
        [f"{os.environ['SITE_DATA']}/data.db"],
        settings={"num_sql_threads": 2},
        config={"permissions": {name: True for name in PERMISSIONS}},
    )
    return site.app()


PERMISSIONS = (
    "insert-row", "delete-row", "update-row", "create-table", "drop-table", "alter-table",
)  # fmt: skip
