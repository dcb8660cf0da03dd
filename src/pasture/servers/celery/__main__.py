"""`python -m pasture.servers.celery ARGS`: what `pasture run celery ARGS` becomes."""

import sys

from celery.__main__ import main

from pasture.servers.celery import worker
from pasture.servers.sealer import show_log

if __name__ == "__main__":
    show_log()
    worker.refuses = True
    sys.argv[0] = "celery"
    main()
