"""`python -m pasture.servers.granian ARGS`: what `pasture run granian ARGS` becomes."""

from __future__ import annotations

import sys

from granian.cli import entrypoint

from pasture.errors import PastureError
from pasture.servers import process_name
from pasture.servers.complaint import complain
from pasture.servers.granian import parent
from pasture.servers.sealer import show_log

if __name__ == "__main__":
    process_name.take("granian")
    sys.argv[0] = "granian"
    show_log()
    parent.refuses = True
    try:
        entrypoint()
    except PastureError as error:
        sys.exit(complain(error))
