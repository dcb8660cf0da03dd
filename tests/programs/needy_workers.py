"""Workers of gunicorn whose heartbeat needs what their `init_process` makes: a table, say."""

import os

from gunicorn.workers.gthread import ThreadWorker
from gunicorn.workers.sync import SyncWorker


class Needy:
    """The part of its own: it serves what is called after its start, and in its process."""

    def init_process(self):
        self.started = {os.getpid(): 0}
        super().init_process()

    def notify(self):
        if self.alive:
            self.started[os.getpid()] += 1
        super().notify()

    def handle_usr1(self, number, frame):
        self.started[os.getpid()] += 1
        super().handle_usr1(number, frame)


class Sync(Needy, SyncWorker):
    """One request at a time."""


class Threads(Needy, ThreadWorker):
    """Requests in threads."""
