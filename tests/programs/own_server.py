"""A program that starts gunicorn by itself, and goes by its settings: `own_server.py PORT [on]`.

Each line of the file `seen` is what one place in it has read: where, and the settings as JSON.
"""

import json
import os
import sys

from gunicorn.app.base import BaseApplication
from gunicorn.config import KNOWN_SETTINGS


class Own(BaseApplication):
    """With `on` it asks for gunicorn's own preload."""

    def load_config(self):
        self.cfg.set("bind", f"127.0.0.1:{sys.argv[1]}")
        self.cfg.set("workers", 2)
        self.cfg.set("reuse_port", "reuse-port" in sys.argv[2:])
        self.cfg.set("preload_app", "on" in sys.argv[2:])
        self.cfg.set("control_socket", f"control-{sys.argv[1]}")
        self.cfg.set("post_fork", lambda server, worker: self.note("post_fork"))
        self.cfg.set("worker_exit", lambda server, worker: self.note("worker_exit"))
        self.cfg.set("when_ready", lambda server: self.note("when_ready"))

    def load(self):
        self.note("load")
        from herd_app import app

        return app

    def note(self, where):
        values = {one.name: self.cfg.settings[one.name].get() for one in KNOWN_SETTINGS}
        values = {name: value for name, value in values.items() if not callable(value)}
        with open("seen", "a") as file:
            file.write(f"{where} {json.dumps(values, default=str)}\n")


if __name__ == "__main__":
    print("program", os.getpid(), file=sys.stderr, flush=True)
    Own().run()
