"""uvicorn's workers, forked from a sealed parent. Importing this package is the switch.

In the program that calls `uvicorn.run(..., workers=8)`:

    import pasture.servers.uvicorn

or `pasture run uvicorn app:app --workers 8`, `pasture run fastapi run app.py --workers 8`. The
application is loaded once, in the parent. docs/uvicorn.md is the user's guide.
"""

from pasture.errors import MissingExtra

try:
    import uvicorn as _uvicorn  # noqa: F401
except ImportError as error:
    raise MissingExtra(
        f"uvicorn cannot be imported: {error}", hint="pip install 'pasture[uvicorn]'"
    ) from error

from pasture.servers.uvicorn.supervisor import install

install()
