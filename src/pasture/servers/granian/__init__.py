"""granian's workers, forked from a sealed parent. Importing this package is the switch.

In the program that calls `granian.Granian(...).serve()`:

    import pasture.servers.granian

or `pasture run granian --interface asgi app:app --workers 8`. The application is loaded once, in
the parent. docs/uvicorn.md is the user's guide.
"""

from pasture.errors import MissingExtra

try:
    import granian as _granian  # noqa: F401
except ImportError as error:
    raise MissingExtra(
        f"granian cannot be imported: {error}", hint="pip install granian"
    ) from error

from pasture.servers.granian.parent import install

install()
