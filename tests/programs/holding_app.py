"""An application that holds what the variable HOLDS names; WSGI, ASGI and tasks of Celery alike.

The variable HELD_AT says when it comes to hold that: at its "import", at the import of a module by
the first request ("module"), or at the first "request". Each answer is JSON: the worker's pid,
whether its own thread, lock, ... is there as in a worker that has imported the application itself,
or a text that no other answer has, and, under "leader", whether it thinks to be the only one.
"""

import asyncio
import atexit
import ctypes
import faulthandler
import fcntl
import http.client
import inspect
import json
import logging
import logging.handlers
import mmap
import multiprocessing
import os
import queue
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import xmlrpc.client
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

HOLDS = os.environ.get("HOLDS", "")
FOLDER = os.environ.get("HELD_IN", "")
PORT = int(os.environ.get("HELD_PORT", "0"))
AT = os.environ.get("HELD_AT", "import")
host = ""
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
    warnings.simplefilter("always")
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


def hold_endless_end():
    """What ends the application waits for something that does not come."""
    atexit.register(time.sleep, 3600 if is_in_parent() else 0)
    return hold_exclusive_file()


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


def is_in_parent():
    """gunicorn's, or a mold: its workers load the application by this function."""
    calls = inspect.stack()
    is_gunicorn = any("gunicorn" in one.filename for one in calls)
    return is_gunicorn and all(one.function != "load_wsgi" for one in calls)


def hold_failure():
    """An import that goes wrong in any process but a worker."""
    if is_in_parent():
        raise RuntimeError("not in the parent")
    return alive


def echoing(ask):
    """Whether each answer is the one to its own question."""
    lock = threading.Lock()

    def answers_itself():
        with lock:
            asked = f"{os.getpid()}-{time.monotonic_ns()}"
            return ask(asked) == asked

    assert answers_itself()
    return answers_itself


def hold_socket(family=socket.AF_INET):
    connection = socket.socket(family)
    connection.connect(
        ("127.0.0.1", PORT) if family == socket.AF_INET else os.path.join(FOLDER, "echo")
    )
    stream = connection.makefile("rwb")

    def ask(asked):
        stream.write(f"{asked}\n".encode())
        stream.flush()
        return stream.readline().decode().strip()

    return echoing(ask)


def hold_http():
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)

    def ask(asked):
        connection.request("GET", f"/{asked}")
        return connection.getresponse().read().decode()[1:]

    return echoing(ask)


def hold_xmlrpc():
    proxy = xmlrpc.client.ServerProxy(f"http://127.0.0.1:{PORT}/")
    return echoing(lambda asked: proxy.echo(asked))


def hold_asyncio_streams():
    loop = asyncio.new_event_loop()

    def run(what):
        with ThreadPoolExecutor(1) as pool:  # this thread may have a loop that runs
            return pool.submit(loop.run_until_complete, what).result()

    reader, writer = run(asyncio.open_connection("127.0.0.1", PORT))

    async def ask(asked):
        writer.write(f"{asked}\n".encode())
        return (await reader.readline()).decode().strip()

    return echoing(lambda asked: run(ask(asked)))


def hold_manager():
    manager = multiprocessing.get_context("fork").Manager()
    values = manager.dict()

    def ask(asked):
        values[os.getpid()] = asked
        return values[os.getpid()]

    kept.append(manager)
    return echoing(ask)


def hold_dialogue():
    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(asked):
        program.stdin.write(f"{asked}\n".encode())
        program.stdin.flush()
        return program.stdout.readline().decode().strip()

    return echoing(ask)


def hold_redis():
    import redis

    client = redis.Redis(port=PORT, protocol=2, socket_timeout=20)
    return echoing(lambda asked: client.echo(asked).decode())


def hold_httpx():
    import httpx

    client = httpx.Client(base_url=f"http://127.0.0.1:{PORT}", timeout=20)
    return echoing(lambda asked: client.get(f"/{asked}").text[1:])


def hold_urllib3():
    import urllib3

    pool = urllib3.PoolManager()
    url = f"http://127.0.0.1:{PORT}"
    return echoing(lambda asked: pool.request("GET", f"{url}/{asked}").data.decode()[1:])


def hold_filelock():
    global leader
    import filelock

    lock = filelock.FileLock(os.path.join(FOLDER, "leader"))
    kept.append(lock)
    try:
        lock.acquire(timeout=0)
        leader = True
    except filelock.Timeout:
        pass
    return alive


def hold_consumer():
    """A thread that does what is put into a queue."""
    jobs = queue.Queue()

    def consume():
        while True:
            jobs.get().set()

    threading.Thread(target=consume, daemon=True).start()

    def is_done():
        done = threading.Event()
        jobs.put(done)
        return done.wait(5)

    return is_done


def hold_ids():
    """Of a block that this process alone has fetched."""
    with open(os.path.join(FOLDER, "next"), "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        first = int(file.read() or 0)
        file.truncate(0)
        file.write(str(first + 1000))
    numbers = iter(range(first, first + 1000))
    return lambda: f"id {next(numbers)}"


def hold_passwords():
    own = random.Random(os.urandom(16))
    return lambda: f"password {own.getrandbits(64)}"


def hold_base():
    """The address that the first request came to, for links in mails."""
    base = [host]

    def is_right():
        base[0] = base[0] or host
        return base[0]

    return is_right


def hold_semaphore():
    """Taken in one worker, as by one that was killed, and free in the other."""
    lock = multiprocessing.Lock()
    taken = []

    def is_free():
        taken[:] = taken or [lock.acquire(timeout=5)]
        return taken[0]

    return is_free


def hold_counters():
    """A lock and a number that are one worker's, as far as it can see."""
    number = multiprocessing.get_context("fork").Value("i", 0)
    own = [0]

    def is_own():
        with number.get_lock():
            number.value += 1
            own[0] += 1
            return number.value == own[0]

    return is_own


def hold_temporary_file():
    file = tempfile.TemporaryFile(buffering=0)
    lock = threading.Lock()

    def is_own():
        with lock:
            file.seek(0)
            before = file.read()
            file.write(b"x")
            kept.append(None)
            return len(before) == len(kept) - 1

    return is_own


def hold_pipe():
    read, write = os.pipe()

    def is_own():
        asked = f"{os.getpid():010}".encode()
        os.write(write, asked)
        return os.read(read, 10) == asked

    return is_own


def hold_watch():
    """Events of a folder: each process that watches it sees all of them."""
    library = ctypes.CDLL(None)
    watch = library.inotify_init1(os.O_NONBLOCK)
    library.inotify_add_watch(watch, FOLDER.encode(), 0x100)  # IN_CREATE
    seen = []

    def sees_all():
        open(f"{FOLDER}/seen-{os.getpid()}", "w").close()
        names = [name for name in os.listdir(FOLDER) if name.startswith("seen-")]
        with suppress(BlockingIOError):
            seen.append(os.read(watch, 1 << 16))
        return all(name.encode() in b"".join(seen) for name in names)

    return sees_all


def hold_handler():
    def own(number, frame):
        pass

    signal.signal(signal.SIGUSR2, own)
    return lambda: signal.getsignal(signal.SIGUSR2) is own


def hold_registered_traceback():
    """A handler in C: Python lists none."""
    faulthandler.register(signal.SIGUSR2, file=open(os.path.join(FOLDER, "trace"), "a"))

    def is_written():
        os.kill(os.getpid(), signal.SIGUSR2)
        return os.path.getsize(os.path.join(FOLDER, "trace")) > 0

    return is_written


def hold_read_file():
    """Read on line by line: each process from where its import has left it."""
    path = os.path.join(FOLDER, f"lines-{os.getpid()}")
    with open(path, "w") as file:
        file.writelines(f"{number}\n" for number in range(100_000))
    file = open(path, "rb", buffering=0)
    assert file.read(2) == b"0\n"
    own = [2]
    lock = threading.Lock()

    def is_own():
        with lock:
            own[0] += len(file.read(5))
            return file.seek(0, os.SEEK_CUR) == own[0]

    return is_own


HOLD = {
    "thread": hold_thread,
    "restarted thread": hold_restarted_thread,
    "executor": hold_executor,
    "listener of logging": hold_listener,
    "flock": locked(lambda file: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)),
    "lockf": locked(lambda file: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)),
    "exclusive file": hold_exclusive_file,
    "endless end": hold_endless_end,
    "port": hold_port,
    "process": hold_process,
    "popen": hold_popen,
    "loop": hold_loop,
    "running loop": hold_running_loop,
    "shared memory": hold_shared_memory,
    "counters": hold_counters,
    "database": hold_database,
    "temporary folder": hold_temporary_folder,
    "timer": hold_timer,
    "failure": hold_failure,
    "connection": hold_socket,
    "unix socket": lambda: hold_socket(socket.AF_UNIX),
    "http.client": hold_http,
    "xmlrpc": hold_xmlrpc,
    "asyncio streams": hold_asyncio_streams,
    "manager": hold_manager,
    "dialogue": hold_dialogue,
    "redis": hold_redis,
    "httpx": hold_httpx,
    "urllib3": hold_urllib3,
    "filelock": hold_filelock,
    "consumer": hold_consumer,
    "ids": hold_ids,
    "passwords": hold_passwords,
    "base": hold_base,
    "temporary file": hold_temporary_file,
    "pipe": hold_pipe,
    "read file": hold_read_file,
    "watch": hold_watch,
    "handler": hold_handler,
    "registered traceback": hold_registered_traceback,
    "semaphore": hold_semaphore,
    "": lambda: alive,
}


def answer(asked_as=""):
    global host, is_there
    host = asked_as
    try:
        if is_there is None:
            is_there = held_late()
        there = is_there()
    except Exception as error:
        there = repr(error)
    return {"pid": os.getpid(), "there": there, "leader": leader}


def held_late():
    if AT == "request":
        return HOLD[HOLDS]()
    import holding_late

    return holding_late.is_there


is_there = HOLD[HOLDS]() if AT == "import" else None


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer(environ.get("HTTP_HOST", ""))).encode()]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    asked_as = dict(scope["headers"]).get(b"host", b"").decode()
    body = json.dumps(answer(asked_as)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
