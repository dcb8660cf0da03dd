"""A WSGI application around the price list of examples/price_list.py."""

import os

import price_list


def application(environ, start_response):
    """Answer each request with the value of the whole stock."""
    body = f"{os.getpid()} {price_list.value_of_stock()}\n".encode()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [body]
