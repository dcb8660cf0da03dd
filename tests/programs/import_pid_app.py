"""A WSGI application for the process that imported it: elsewhere it answers otherwise.

A stand-in for all that holds at its import what a fork breaks, and that nothing can see.
"""

import os

IMPORTED_BY = os.getpid()


def application(environ, start_response):
    start_response("200 OK" if os.getpid() == IMPORTED_BY else "404 Not Found", [])
    return [b"here"]
