"""A configuration of gunicorn: each worker ends in the next way of ENDS, as it has started.

Sealed with the variable SEALED. `python ending_workers.py` starts gunicorn in a process of
multiprocessing, which then is the one that seals and forks.
"""

import os
import sys

from exit_ways import WAYS

ENDS = os.environ["ENDS"].split()

if os.environ.get("SEALED"):
    from pasture.servers.gunicorn import *  # noqa: F403

bind = "127.0.0.1:0"
control_socket = os.environ["CONTROL_SOCKET"]
workers = 1
preload_app = True


def post_worker_init(worker):
    if worker.age <= len(ENDS):
        WAYS[ENDS[worker.age - 1]]()
        sys.exit()


def child_exit(server, worker):
    if worker.age >= len(ENDS):
        raise StopIteration  # the arbiter ends by it, too


def app(environ, start_response):
    start_response("200 OK", [])
    return []


def serve():
    from gunicorn.app.wsgiapp import run

    sys.argv = ["gunicorn", "-c", __file__, "ending_workers:app"]
    run()


if __name__ == "__main__":
    from multiprocessing import get_context

    process = get_context("fork").Process(target=serve)
    process.start()
    process.join()
    sys.exit(process.exitcode)
