"""An application, and a class of workers, whose processes register in a folder and leave it.

A name in the folder is a row in a table: what began it, and in which process. Names that begin
`shared` are the parent's, which its workers use.
"""

import atexit
import os
import tempfile
import threading
import weakref
from pathlib import Path

from gunicorn.workers.gthread import ThreadWorker
from gunicorn.workers.sync import SyncWorker

FOLDER = Path(os.environ["REGISTER"])
LOADED_BY = os.getpid()
shared = tempfile.TemporaryDirectory(dir=FOLDER, prefix="shared-")
lost = threading.Event()  # a thread of the parent sets it, which no worker has


def row(what):
    return FOLDER / f"{what}-{os.getpid()}"


class Registered:
    """What a worker's start makes, and weakref's finalizer removes."""


def begin_all(worker):
    """As post_fork."""
    atexit.register(row("atexit").unlink)
    row("atexit").touch()
    row("finalizer").touch()
    worker.registered = Registered()
    weakref.finalize(worker.registered, row("finalizer").unlink)
    stop = threading.Event()
    row("thread").touch()

    def heartbeat():
        stop.wait()
        row("thread").unlink()

    worker.stop_heartbeat = stop.set
    threading.Thread(target=heartbeat).start()


atexit.register(lambda: (FOLDER / f"shared-at-the-end-of-{os.getpid()}").touch())


class Registering:
    def init_process(self):
        row("exit").touch()
        super().init_process()

    def handle_exit(self, sig, frame):
        row("exit").unlink(missing_ok=True)
        self.stop_heartbeat()
        super().handle_exit(sig, frame)


class Worker(Registering, SyncWorker):
    pass


class Threaded(Registering, ThreadWorker):
    pass


class OwnLoop(SyncWorker):
    """Whose `run` is its own."""

    def run(self):
        row("row").touch()
        try:
            self.run_for_one(self.timeout or 0.5)
        finally:
            row("row").unlink()


def app(environ, start_response):
    if environ["PATH_INFO"] == "/hang" and os.getpid() != LOADED_BY:
        lost.wait()
    there = Path(shared.name).exists()
    start_response("200 OK" if there else "500 Lost", [("Content-Type", "text/plain")])
    return [b"there"]
