"""Objects that are made and dropped while pasture's recorders look on; prints what still lives."""

import functools
import gc
import io
import random
import socket
import sqlite3
import sys
import tempfile
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from logging.handlers import QueueListener
from queue import SimpleQueue

from pasture.fork_safety import held, streams
from pasture.own_values import generators


class Connection(sqlite3.Connection):
    """One that has weak references."""


def connection():
    found = sqlite3.connect(":memory:", factory=Connection)
    found.execute("select 1").fetchall()
    return found


def executor():
    found = ThreadPoolExecutor(1)
    found.submit(len, ()).result()
    return found


def listener():
    found = QueueListener(SimpleQueue())
    found.start()
    return found


def cache():
    @functools.cache
    def cached(word):
        return word

    cached("word")
    return cached


MAKE = {
    "file": lambda: tempfile.TemporaryFile(),
    "raw file": lambda: io.FileIO(__file__),
    "connection": connection,
    "socket": socket.socket,
    "generator": lambda: random.Random(7),
    "executor": executor,
    "listener": listener,
    "thread": lambda: threading.Thread(target=len),
    "cache": cache,
}
END = {"executor": ThreadPoolExecutor.shutdown, "listener": QueueListener.stop}


def recorders():
    """All at once, as in a server's parent; each step is one at which they look around."""
    streams.begin()
    streams.arm()
    watch = held.Import()
    with generators.observed():
        yield
        streams.note()
        watch.end()
        watch.hazards()
        yield


steps = recorders() if sys.argv[1] == "observed" else iter((None, None))
next(steps)
objects = {name: make() for name, make in MAKE.items()}
next(steps)
for name, end in END.items():
    end(objects[name])
known = {name: weakref.ref(one) for name, one in objects.items()}
objects.clear()
gc.collect()
print(*(name for name, one in known.items() if one() is not None))
list(steps)
