"""An application whose import holds what the variable HOLDS names; WSGI and ASGI alike.

Each answer is JSON: the worker's pid, whether its own thread, lock, ... is there as in a worker
that has imported the application itself, and, under "leader", whether it thinks to be the only one.
"""

import asyncio
import atexit
import fcntl
import json
import logging
import logging.handlers
import mmap
import multiprocessing
import os
import queue
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HOLDS = os.environ.get("HOLDS", "")
FOLDER = os.environ.get("HELD_IN", "")
PORT = int(os.environ.get("HELD_PORT", "0"))
leader = False
kept = []


def alive():
    return True


def of_thread(target):
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread.is_alive


def hold_thread():
    return of_thread(lambda: time.sleep(3600))


def hold_restarted_thread():
    """Started again in each child, by the program itself."""
    started = []

    def start():
        started.append(threading.Thread(target=time.sleep, args=(3600,), daemon=True))
        started[-1].start()

    start()
    os.register_at_fork(after_in_child=start)
    return lambda: started[-1].is_alive()


def hold_executor():
    """Idle, and of no use without its threads."""
    pool = ThreadPoolExecutor(2)
    list(pool.map(len, ["a", "bb"]))
    return lambda: pool.submit(alive).result(timeout=5)


def hold_listener():
    lines = queue.SimpleQueue()
    path = os.path.join(FOLDER, "lines")
    listener = logging.handlers.QueueListener(lines, logging.FileHandler(path))
    listener.start()
    kept.append(listener)
    logger = logging.getLogger("queued")
    logger.addHandler(logging.handlers.QueueHandler(lines))

    def is_written():
        logger.warning("from %s", os.getpid())
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if f"from {os.getpid()}\n" in open(path).read():
                return True
            time.sleep(0.01)
        return False

    return is_written


def locked(lock):
    def hold():
        global leader
        file = open(os.path.join(FOLDER, "leader"), "w")
        kept.append(file)
        try:
            lock(file)
            leader = True
        except OSError:
            pass
        return alive

    return hold


def hold_exclusive_file():
    global leader
    path = os.path.join(FOLDER, "leader.lock")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        leader = True
    except FileExistsError:
        pass
    return alive


def hold_port():
    global leader
    bound = socket.socket()
    kept.append(bound)
    try:
        bound.bind(("127.0.0.1", PORT))
        leader = True
    except OSError:
        pass
    return alive


def hold_process():
    process = multiprocessing.get_context("fork").Process(
        target=time.sleep, args=(3600,), daemon=True
    )
    process.start()
    return lambda: process._parent_pid == os.getpid() and process.is_alive()


def hold_popen():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    atexit.register(process.kill)
    return lambda: process.poll() is None


def hold_loop():
    loop = asyncio.new_event_loop()
    kept.append(loop)
    return lambda: loop.run_until_complete(asyncio.sleep(0, True))


def hold_running_loop():
    """As `aiohttp.ClientSession()` at import."""
    loop = asyncio.get_running_loop()
    return lambda: loop is asyncio.get_running_loop()


def hold_shared_memory():
    shared = mmap.mmap(-1, 8)

    def is_own():
        shared[0:1] = bytes([shared[0] + 1])
        own[0] += 1
        return shared[0] == own[0]

    own = [0]
    return is_own


def hold_database():
    connection = sqlite3.connect(os.path.join(FOLDER, "empty.db"), check_same_thread=False)
    kept.append(connection)
    owner = os.getpid()
    return lambda: owner == os.getpid()


def hold_temporary_folder():
    folder = tempfile.TemporaryDirectory(dir=FOLDER)
    kept.append(folder)
    owner = os.getpid()
    return lambda: owner == os.getpid()


def hold_timer():
    ticks = []
    signal.signal(signal.SIGALRM, lambda *_: ticks.append(0))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)

    def has_ticked():
        before = len(ticks)
        deadline = time.monotonic() + 5
        while len(ticks) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        return len(ticks) > before

    return has_ticked


def hold_failure():
    """An import that goes wrong in any process but a worker."""
    import inspect

    if any("arbiter" in f.filename and f.function == "setup" for f in inspect.stack()):
        raise RuntimeError("not in the parent")
    return alive


def hold_connection():
    connection = socket.create_connection(("127.0.0.1", PORT))
    stream = connection.makefile("rwb")
    lock = threading.Lock()

    def answers_itself():
        with lock:
            asked = f"{os.getpid()}-{time.monotonic_ns()}\n".encode()
            stream.write(asked)
            stream.flush()
            return stream.readline() == asked

    assert answers_itself()
    return answers_itself


HOLD = {
    "thread": hold_thread,
    "restarted thread": hold_restarted_thread,
    "executor": hold_executor,
    "listener of logging": hold_listener,
    "flock": locked(lambda file: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)),
    "lockf": locked(lambda file: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)),
    "exclusive file": hold_exclusive_file,
    "port": hold_port,
    "process": hold_process,
    "popen": hold_popen,
    "loop": hold_loop,
    "running loop": hold_running_loop,
    "shared memory": hold_shared_memory,
    "database": hold_database,
    "temporary folder": hold_temporary_folder,
    "timer": hold_timer,
    "failure": hold_failure,
    "connection": hold_connection,
    "": lambda: alive,
}
is_there = HOLD[HOLDS]()


def answer():
    try:
        there = bool(is_there())
    except Exception as error:
        there = repr(error)
    return {"pid": os.getpid(), "there": there, "leader": leader}


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer()).encode()]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    body = json.dumps(answer()).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
