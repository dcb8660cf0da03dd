"""Things that programs take from their process: at import, in caches, at the first request, now.

Each process writes, once, what it has of each to ZOO_OUT: a line of JSON. Values are compared
between workers, and with the worker's own of now.
"""

import asyncio
import datetime
import functools
import gc
import json
import locale
import logging
import multiprocessing
import os
import random
import resource
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import numpy.random


def _handler(number):
    handler = signal.getsignal(number)
    if isinstance(handler, signal.Handlers):
        return handler.name
    return getattr(handler, "__qualname__", type(handler).__qualname__)


def _port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _loop():
    loop = asyncio.new_event_loop()
    try:
        return os.fstat(loop._ssock.fileno()).st_ino
    finally:
        loop.close()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _main():
    main = sys.modules["__main__"]
    return [main.__name__, Path(getattr(main, "__file__", None) or "").name]


def _log_process():
    return logging.LogRecord("zoo", 20, "", 0, "", (), None).process


TAKEN = {
    "pid": os.getpid,
    "parent": os.getppid,
    "process group": os.getpgrp,
    "session": lambda: os.getsid(0),
    "process of a log record": _log_process,
    "process of multiprocessing": lambda: multiprocessing.current_process().pid,
    "name of multiprocessing": lambda: multiprocessing.current_process().name,
    "key of multiprocessing": lambda: multiprocessing.current_process().authkey.hex(),
    "host": socket.gethostname,
    "pid@host": lambda: f"{os.getpid()}@{socket.gethostname()}",
    "user": os.getuid,
    "thread": threading.get_ident,
    "native thread": threading.get_native_id,
    "main thread": lambda: threading.main_thread().native_id,
    "name of the thread": lambda: threading.current_thread().name,
    "time": time.time,
    "time in ns": time.time_ns,
    "monotonic": time.monotonic,
    "perf_counter": time.perf_counter,
    "date and time": lambda: datetime.datetime.now(datetime.UTC).isoformat(),
    "uuid1": lambda: str(uuid.uuid1()),
    "clock sequence of uuid1": lambda: uuid.uuid1().clock_seq,
    "uuid4": lambda: str(uuid.uuid4()),
    "uuid7": lambda: str(uuid.uuid7()) if hasattr(uuid, "uuid7") else str(uuid.uuid4()),
    "node of uuid": uuid.getnode,
    "random": random.random,
    "Random()": lambda: OWN.random(),
    "Random(7)": lambda: SEEDED.random(),
    "numpy.random": lambda: float(numpy.random.random()),
    "default_rng()": lambda: float(RNG.random()),
    "default_rng(7)": lambda: float(RNG_SEEDED.random()),
    "RandomState()": lambda: float(STATE.random_sample()),
    "SeedSequence()": lambda: str(SEQUENCE.entropy),
    "SeedSequence().spawn": lambda: float(numpy.random.default_rng(SEQUENCE.spawn(1)[0]).random()),
    "SystemRandom": random.SystemRandom().random,
    "os.urandom": lambda: os.urandom(8).hex(),
    "secrets": lambda: secrets.token_hex(16),
    "temporary file": tempfile.mktemp,
    "temporary folder": tempfile.gettempdir,
    "hash of a text": lambda: hash("a text"),
    "free port": _port,
    "event loop": _loop,
    "a lock is free": lambda: not LOCK.locked(),
    "handler of SIGTERM": lambda: _handler(signal.SIGTERM),
    "handler of SIGINT": lambda: _handler(signal.SIGINT),
    "handler of SIGHUP": lambda: _handler(signal.SIGHUP),
    "handler of SIGUSR1": lambda: _handler(signal.SIGUSR1),
    "handler of SIGCHLD": lambda: _handler(signal.SIGCHLD),
    "handler of SIGPIPE": lambda: _handler(signal.SIGPIPE),
    "blocked signals": lambda: sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "umask": _umask,
    "limit of files": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
    "limit of core": lambda: resource.getrlimit(resource.RLIMIT_CORE),
    "niceness": lambda: os.nice(0),
    "processors": lambda: sorted(os.sched_getaffinity(0)),
    "working directory": os.getcwd,
    "__main__": _main,
    "argv": lambda: [Path(word).name for word in sys.argv[:1]],
    "executable": lambda: sys.executable,
    "flags": lambda: str(sys.flags),
    "recursion limit": sys.getrecursionlimit,
    "switch interval": sys.getswitchinterval,
    "collector is on": gc.isenabled,
    "excepthook": lambda: sys.excepthook.__qualname__,
    "encoding": locale.getpreferredencoding,
    "time zone": lambda: time.tzname,
    "standard input": lambda: os.path.realpath("/proc/self/fd/0").partition(":")[0],
}
"""By name, what takes it."""

OWN, SEEDED = random.Random(), random.Random(7)
RNG, RNG_SEEDED = numpy.random.default_rng(), numpy.random.default_rng(7)
STATE, SEQUENCE = numpy.random.RandomState(), numpy.random.SeedSequence()
LOCK = threading.Lock()


def take():
    return {name: one() for name, one in TAKEN.items()}


def cached(one):
    @functools.cache
    def value():
        return {"value": one()}

    return value


CACHES = {name: cached(one) for name, one in TAKEN.items()}
globals().update({f"cache_{number}": one for number, one in enumerate(CACHES.values())})

at_import = take()
in_hook = {}
at_first_request = {}
_written = set()


def _in_child():
    in_hook.clear()
    in_hook.update(take())


os.register_at_fork(after_in_child=_in_child)


def serve():
    """What a request does: take what was not taken yet."""
    import zoo_late

    if not at_first_request:
        at_first_request.update(take())
    return zoo_late.at_import


def write():
    """Serve, and write what this process has; once."""
    late = serve()
    if os.getpid() in _written:
        return os.getpid()
    _written.add(os.getpid())
    found = {
        "import": at_import,
        "late import": late,
        "cache": {name: one()["value"] for name, one in CACHES.items()},
        "first request": at_first_request,
        "hook": in_hook,
        "now": take(),
    }
    line = json.dumps({"pid": os.getpid(), "values": found}, default=str)
    with Path(os.environ["ZOO_OUT"]).open("ab", buffering=0) as file:
        file.write(line.encode() + b"\n")
    return os.getpid()
