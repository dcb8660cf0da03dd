"""WSGI applications whose threads keep connections: Django's to a database, and a client's own.

Both are cycles, so that the connection of a thread that has ended is garbage, and open until a
collection.
"""

import functools
import json
import os
import socket
import threading
from pathlib import Path

_of_thread = threading.local()


_one_at_a_time = threading.Lock()


@functools.cache
def listener():
    return socket.create_server(("127.0.0.1", 0))


def peer():
    with _one_at_a_time:
        return listener()


class Client:
    """One connection, and an object that knows its owner."""

    def __init__(self):
        self.socket = socket.create_connection(peer().getsockname())
        self.owner = self


def answer(start_response):
    body = json.dumps({"pid": os.getpid()}).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def clients(environ, start_response):
    """A connection for each thread."""
    if not hasattr(_of_thread, "client"):
        _of_thread.client = Client()
    return answer(start_response)


def make_site():
    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.db import connection
    from django.http import JsonResponse
    from django.urls import path

    def rows(request):
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return JsonResponse({"pid": os.getpid()})

    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path("rows.sqlite3").absolute(),
        "CONN_MAX_AGE": None,
    }
    settings.configure(
        ALLOWED_HOSTS=["*"], DATABASES={"default": database}, ROOT_URLCONF=(path("who", rows),)
    )
    django.setup()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS stock (id INTEGER)")
    return get_wsgi_application()


def __getattr__(name):
    if name != "site":
        raise AttributeError(name)
    globals()[name] = make_site()
    return globals()[name]
