"""An application whose heap is hundreds of thousands of small containers, 35 MB, as WSGI.

Each has a collector's head and a reference count: what looks at all of them writes to all of
their pages.
"""

LISTS = [[i] for i in range(400_000)]


def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "0")])
    return []
