"""`python -m pasture.servers.huey ARGS`: what `pasture run huey_consumer ARGS` becomes.

Owns coming back here at a restart (HUP), for which Huey runs `sys.argv` as a script: that is a
folder of its own, because Python puts a script's folder in front of the path.
"""

from __future__ import annotations

import sys
from pathlib import Path

from huey.bin.huey_consumer import consumer_main

from pasture.servers import process_name
from pasture.servers.huey import consumer
from pasture.servers.sealer import show_log

_SCRIPT = Path(__file__).parent / "restarted" / "huey_consumer"


def run() -> None:
    """Work until told to stop."""
    process_name.take("huey_consumer")
    show_log()
    consumer.refuses = True
    sys.argv[0] = str(_SCRIPT)
    consumer_main()


if __name__ == "__main__":
    run()
