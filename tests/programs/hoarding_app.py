"""A shop whose first request opens, caches and registers; each request is a line in a file.

No worker may answer with what another one has opened, and no start may serve what a client sent.
"""

import functools
import json
import os
import re
import sqlite3

registered = set()


def register(name):
    """As registries of metrics do: a second time is an error."""
    if name in registered:
        raise ValueError(f"Duplicated timeseries: {name}")
    registered.add(name)


@functools.cache
def connection():
    opened = sqlite3.connect(os.devnull)
    return opened, os.getpid()


@functools.cache
def card(number):
    return number


def app(environ, start_response):
    import hoarding_half

    with open("requests.txt", "a") as file:
        file.write(f"{environ['PATH_INFO']}\n")
    card(environ["PATH_INFO"])
    re.search(re.escape(environ["QUERY_STRING"]), "text")
    answer = {"pid": os.getpid(), "opened by": connection()[1], "half": hoarding_half.IS_WHOLE}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]
