"""A site behind a fork server by hand: `rivals_fork_server.py PORT WORKERS`, in the site's folder.

The forkserver of multiprocessing preloads the application; each process that it forks serves the
same listening socket with the standard library's server. Nothing is frozen or sealed.
"""

import multiprocessing
import socket
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

APPLICATION = "meadow.wsgi"


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: gunicorn writes no line for a request either."""


def serve(listener: socket.socket) -> None:
    from meadow.wsgi import application  # type: ignore[import-not-found]

    host, port = listener.getsockname()
    server = WSGIServer((host, port), Quiet, bind_and_activate=False)
    server.socket = listener
    server.server_name, server.server_port = host, port
    server.setup_environ()
    server.set_app(application)
    server.serve_forever()


def main() -> None:
    port, workers = map(int, sys.argv[1:])
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([APPLICATION])
    processes = [context.Process(target=serve, args=(listener,)) for _ in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
