"""A WSGI application that takes requests and never answers."""

import time


def application(environ, start_response):
    time.sleep(3600)
