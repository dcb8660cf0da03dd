"""A WSGI application that fails at /broken, and ends its server at /fatal."""

import os
import signal


def application(environ, start_response):
    if environ["PATH_INFO"] == "/broken":
        raise RuntimeError("this page is broken on purpose")
    if environ["PATH_INFO"] == "/fatal":
        os.kill(os.getppid(), signal.SIGKILL)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
