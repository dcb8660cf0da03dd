"""A pre-fork HTTP server in plain Python, for an interpreter that has no uWSGI.

    python prefork_server.py MODULE PORT WORKERS

Loads MODULE:application, then forks. Each worker accepts and answers one request after the
other. Ends with its workers on SIGTERM.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
from types import FrameType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer


class Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(WSGIServer):
    def __init__(self, listener: socket.socket, application: Any) -> None:
        super().__init__(listener.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_name, self.server_port = listener.getsockname()
        self.setup_environ()
        self.set_app(application)


def main(module: str, port: int, workers: int) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    application = importlib.import_module(module).application
    listener.listen(100)
    pids = []
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            Server(listener, application).serve_forever()
        pids.append(pid)

    def end(number: int, frame: FrameType | None) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        for pid in pids:
            os.waitpid(pid, 0)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
