"""`python -m pasture.servers.celery ARGS`: what `pasture run celery ARGS` becomes.

Owns coming back here at a restart (HUP), for which Celery runs `sys.argv` as a script: that
is a folder of its own, because Python puts a script's folder in front of the path.
"""

from __future__ import annotations

import sys
from pathlib import Path

from celery.__main__ import main

from pasture.servers import process_name
from pasture.servers.celery import worker
from pasture.servers.sealer import show_log

_SCRIPT = Path(__file__).parent / "restarted" / "celery"


def run() -> None:
    """Run a command of Celery's; a worker among them is sealed, or refused."""
    process_name.take("celery")
    show_log()
    worker.refuses = True
    sys.argv[0] = str(_SCRIPT)
    main()


if __name__ == "__main__":
    run()
