"""dramatiq's worker processes, forked from a sealed parent. Importing this package is the switch.

In a program that calls `dramatiq.cli.main`:

    import pasture.servers.dramatiq

or `pasture run dramatiq my_tasks`. docs/queues.md is the user's guide.
"""

from pasture.errors import MissingExtra

try:
    import dramatiq as _dramatiq  # noqa: F401
except ImportError as error:
    raise MissingExtra(
        f"dramatiq cannot be imported: {error}", hint="pip install 'dramatiq[redis]'"
    ) from error

from pasture.servers.dramatiq.parent import install

install()
