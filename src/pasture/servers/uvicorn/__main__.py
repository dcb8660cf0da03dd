"""`python -m pasture.servers.uvicorn ARGS`: what `pasture run uvicorn ARGS` becomes.

Owns that what cannot be sealed is refused, and that a refusal is no traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from uvicorn.main import main

from pasture.errors import PastureError
from pasture.servers import process_name
from pasture.servers.complaint import complain
from pasture.servers.sealer import show_log
from pasture.servers.uvicorn import supervisor


def run(name: str, command: Callable[[], object]) -> None:
    """Run a command, which calls `uvicorn.run`; what it starts is sealed, or refused."""
    process_name.take(name)
    show_log()
    supervisor.refuses = True
    try:
        command()
    except PastureError as error:
        sys.exit(complain(error))


if __name__ == "__main__":
    run("uvicorn", lambda: main(prog_name="uvicorn"))
