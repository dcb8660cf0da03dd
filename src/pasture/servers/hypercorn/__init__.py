"""hypercorn's workers, forked from a sealed parent. Importing this package is the switch.

In the program that calls `hypercorn.run.run(config)`:

    import pasture.servers.hypercorn

or `pasture run hypercorn app:app --workers 8`. The application is loaded once, in the parent.
docs/uvicorn.md is the user's guide.
"""

from pasture.errors import MissingExtra

try:
    import hypercorn as _hypercorn  # noqa: F401
except ImportError as error:
    raise MissingExtra(
        f"hypercorn cannot be imported: {error}", hint="pip install hypercorn"
    ) from error

from pasture.servers.hypercorn.parent import install

install()
