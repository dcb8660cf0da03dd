"""`python -m pasture.servers.hypercorn ARGS`: what `pasture run hypercorn ARGS` becomes."""

from __future__ import annotations

import sys

from hypercorn.__main__ import main

from pasture.errors import PastureError
from pasture.servers import process_name
from pasture.servers.complaint import complain
from pasture.servers.hypercorn import parent
from pasture.servers.sealer import show_log

if __name__ == "__main__":
    process_name.take("hypercorn")
    sys.argv[0] = "hypercorn"
    show_log()
    parent.refuses = True
    try:
        sys.exit(main())
    except PastureError as error:
        sys.exit(complain(error))
