"""Spawns processes in many ways, and prints what each one has seen: a line of JSON each.

python spawning_app.py METHOD WAY
"""

import atexit
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory
from pathlib import Path

METHOD, WAY, *REST = sys.argv[1:] or ["spawn", "plain"]
READ = os.environ.get("SPAWNING_READ")
GENERATOR = random.Random()


def show(**values):
    print(json.dumps(values), flush=True)


show(imported=__name__)
atexit.register(lambda: show(end=multiprocessing.current_process().name))
if WAY == "thread" and __name__ != "__main__":
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def look(writer, number):
    writer.send(
        {
            "number": number,
            "main": __name__,
            "argv": sys.argv,
            "folder": os.getcwd(),
            "name": multiprocessing.current_process().name,
            "parents": [os.getppid(), multiprocessing.parent_process().pid],
            "threads": threading.active_count(),
            "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
            "mask": [*signal.pthread_sigmask(signal.SIG_BLOCK, ())],
            "umask": os.umask(0),
            "variables": [READ, os.environ.get("SPAWNING_APP")],
            "drawn": GENERATOR.random(),
        }
    )
    print("a line of the process", file=sys.stderr, flush=True)
    sys.exit(number)


def end(number):
    os.kill(os.getpid(), number)


def fail():
    raise ValueError("an error of the process")


def fill(name):
    memory = shared_memory.SharedMemory(name)
    memory.buf[0] = 7
    memory.close()


def nested(queue):
    inner = context.Process(target=fill, args=(queue,))
    inner.start()
    inner.join()
    sys.exit(inner.exitcode)


def seen(count, target=look):
    """What so many processes have seen, without what differs between two runs."""
    reader, writer = context.Pipe()
    processes = [context.Process(target=target, args=(writer, number)) for number in range(count)]
    for process in processes:
        process.start()
    found = sorted((reader.recv() for _ in processes), key=lambda one: one["number"])
    for process in processes:
        process.join()
    assert len({one.pop("drawn") for one in found}) == count
    for one, process in zip(found, processes, strict=True):
        one["parents"] = [pid == os.getpid() for pid in one["parents"]]
        show(**one, status=process.exitcode)


def statuses(*processes):
    for process in processes:
        process.start()
        process.join()
    show(statuses=[process.exitcode for process in processes])


context = multiprocessing.get_context(METHOD)

if __name__ == "__main__":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    seen(2)
    if WAY == "plain":
        statuses(
            *(context.Process(target=end, args=(one,)) for one in (signal.SIGTERM, signal.SIGKILL)),
            context.Process(target=fail),
        )
        with context.Pool(2) as pool, ProcessPoolExecutor(2, mp_context=context) as executor:
            show(pool=pool.map(abs, [-1, -2]), executor=[*executor.map(abs, [-3, -4])])
        with context.Manager() as manager:
            show(manager=manager.list([1, 2])[1])
        memory = shared_memory.SharedMemory(create=True, size=16)
        statuses(
            context.Process(target=fill, args=(memory.name,)),
            context.Process(target=nested, args=(memory.name,)),
        )
        show(filled=memory.buf[0])
        memory.close()
        memory.unlink()
    elif WAY == "change":
        exec(REST[0])
        seen(2)
    elif WAY == "killed":
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        for child in children[1:]:  # the first is the resource tracker
            os.kill(int(child), signal.SIGKILL)
        seen(2)
