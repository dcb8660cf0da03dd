"""A WSGI application that answers 500 at /broken, nothing at /closed, and dies at /fatal."""

import os
import signal


def application(environ, start_response):
    match environ["PATH_INFO"]:
        case "/broken":
            print("broken on purpose", file=environ["wsgi.errors"], flush=True)
            start_response("500 Internal Server Error", [("Content-Length", "0")])
            return []
        case "/closed":
            environ["gunicorn.socket"].close()
        case "/fatal":
            os.kill(os.getppid(), signal.SIGKILL)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
