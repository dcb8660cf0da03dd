"""A WSGI application that serves in the process that has imported it, and answers otherwise elsewhere.

A stand-in for all that holds at its import what a fork breaks, and that nothing can see.
"""

import os

IMPORTED_BY = os.getpid()


def application(environ, start_response):
    start_response("200 OK" if os.getpid() == IMPORTED_BY else "404 Not Found", [])
    return [b"here"]
