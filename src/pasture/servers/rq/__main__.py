"""`python -m pasture.servers.rq ARGS`: what `pasture run rq ARGS` becomes."""

from __future__ import annotations

from rq.cli import main

from pasture.servers import process_name
from pasture.servers.rq import worker
from pasture.servers.sealer import show_log


def run() -> None:
    """Run a command of RQ's; a worker among them is sealed, or refused."""
    process_name.take("rq")
    show_log()
    worker.refuses = True
    main(prog_name="rq")


if __name__ == "__main__":
    run()
