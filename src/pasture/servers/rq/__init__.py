"""RQ's workers, which fork a work horse for each job. Importing this package is the switch.

In a program that makes an `rq.Worker` or an `rq.worker_pool.WorkerPool`:

    import pasture.servers.rq

or `pasture run --preload my_tasks rq worker`. The parent is sealed once, before its first fork: it
works itself between the forks. docs/queues.md is the user's guide.
"""

from pasture.errors import MissingExtra

try:
    import rq as _rq  # noqa: F401
except ImportError as error:
    raise MissingExtra(f"rq cannot be imported: {error}", hint="pip install rq") from error

from pasture.servers.rq.worker import install

install()
