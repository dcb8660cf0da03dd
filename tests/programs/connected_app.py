"""Has used a connection at its import, to CONNECTED_TO, and asks there in each request."""

import http.client
import os

connection = http.client.HTTPConnection(os.environ["CONNECTED_TO"], timeout=10)


def ask(path):
    connection.request("GET", path)
    return connection.getresponse().read()


ask("/import")


def app(environ, start_response):
    try:
        body, status = ask(environ["PATH_INFO"]), "200 OK"
    except (OSError, http.client.HTTPException) as error:
        body, status = repr(error).encode(), "500 Error"
    start_response(status, [("Content-Length", str(len(body)))])
    return [body]
