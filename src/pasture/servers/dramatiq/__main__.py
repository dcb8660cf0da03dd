"""`python -m pasture.servers.dramatiq ARGS`: what `pasture run dramatiq ARGS` becomes.

Owns coming back here at a reload (HUP), for which dramatiq executes `sys.argv`.
"""

from __future__ import annotations

import sys

from dramatiq import cli

from pasture.servers import process_name
from pasture.servers.dramatiq import parent
from pasture.servers.sealer import show_log


def run() -> int:
    """Work until told to stop; returns dramatiq's exit code."""
    process_name.take("dramatiq")
    show_log()
    parent.refuses = True
    parent.restarts_as = [sys.executable, *sys.orig_argv[1:]]
    sys.argv[0] = "pasture run dramatiq"
    return int(cli.main() or 0)


if __name__ == "__main__":
    sys.exit(run())
