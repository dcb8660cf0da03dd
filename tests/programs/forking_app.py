"""Forks in the way that its argument names; prints a line of JSON for each worker.

Used for `pasture run -- python forking_app.py WAY`. A worker says whether the records that
it holds are immortal, which only a seal makes them.
"""

import json
import os
import subprocess
import sys

RECORDS = None


def load():
    global RECORDS
    RECORDS = [{"id": 1000 + i} for i in range(5000)]


def immortal():
    return sys.getrefcount(RECORDS) > 1_000_000 if RECORDS is not None else False


def worker(name):
    pid = os.fork()
    if pid == 0:
        print(json.dumps({"worker": name, "immortal": immortal()}), flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def execute():
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", "pass"])
    assert os.waitpid(pid, 0)[1] == 0


def detach():
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)


def say():
    print(json.dumps({"worker": "parent", "immortal": immortal()}), flush=True)


def early():
    worker("early")
    load()
    worker("late")


if __name__ == "__main__":
    way = sys.argv[1]
    if way != "early":
        load()
    if way == "workers":
        worker("first")
        worker("second")
    elif way == "exec":
        execute()
        say()
        worker("after")
    elif way == "daemon":
        detach()
        say()
        worker("after")
    elif way == "subprocess":
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        subprocess.run([sys.executable, "-c", "pass"], check=True, preexec_fn=os.getpid)
        say()
        worker("after")
    elif way == "early":
        early()
    elif way == "arguments":
        print(json.dumps([__name__, __file__, sys.argv, sys.path[0]]))
    elif way == "thread":
        import threading

        def look():
            while os.environ.get("LOOKOUT") == "runs":
                pass
            threading.Event().wait()

        threading.Thread(target=look, name="lookout", daemon=True).start()
        worker("only")
    sys.exit(int(os.environ.get("STATUS", "0")))
