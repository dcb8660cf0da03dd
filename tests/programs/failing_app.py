"""A WSGI application that answers 500 at /broken, nothing at /closed, and dies at /fatal.

At /late the first answer of each worker takes 8 s, unless the policy is stock.
"""

import os
import signal
import time

_ON_TIME = {"stock"} & {os.environ.get("PASTURE_POLICY")}


def application(environ, start_response):
    match environ["PATH_INFO"]:
        case "/broken":
            print("broken on purpose", file=environ["wsgi.errors"], flush=True)
            start_response("500 Internal Server Error", [("Content-Length", "0")])
            return []
        case "/closed":
            environ["gunicorn.socket"].close()
        case "/late" if not _ON_TIME:
            _ON_TIME.add("from now on")
            time.sleep(8)
        case "/fatal":
            os.kill(os.getppid(), signal.SIGKILL)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
