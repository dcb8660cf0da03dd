"""Celery's prefork pool, sealed. Importing this package is the switch.

In the module of the Celery application:

    import pasture.servers.celery

or `pasture run celery -A proj worker`. The parent is sealed when its first pool process is
forked, once all task modules are imported, and again if much was loaded since; processes
that replace others are forked from the sealed parent. docs/queues.md is the user's guide.
"""

from pasture.errors import MissingExtra

try:
    import celery as _celery  # noqa: F401
except ImportError as error:
    raise MissingExtra(
        f"celery cannot be imported: {error}", hint="pip install 'pasture[celery]'"
    ) from error

from pasture.servers.celery.worker import install

install()
