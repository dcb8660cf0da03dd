"""Huey's worker processes, forked from a sealed parent. Importing this package is the switch.

In a program that makes a `huey.consumer.Consumer` with `worker_type="process"`:

    import pasture.servers.huey

or `pasture run huey_consumer my_app.huey -k process`. docs/queues.md is the user's guide.
"""

from pasture.errors import MissingExtra

try:
    import huey as _huey  # noqa: F401
except ImportError as error:
    raise MissingExtra(f"huey cannot be imported: {error}", hint="pip install huey") from error

from pasture.servers.huey.consumer import install

install()
