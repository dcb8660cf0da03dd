"""A master and a worker whose every name is meant to harm who looks at them.

Names of the process, of a thread, of a mapped library, of types and of keys hold escape
sequences, ends of lines, directions of writing, halves of characters, and markup. The worker
writes to objects of such types. Prints the pid of both.
"""

import ctypes
import json
import mmap
import os
import sys
import threading
import time
from pathlib import Path

EVIL = "\x1b]0;owned\x07\x9b31m\u202e\n[/red][bold]<script>alert(1)</script>{{7*7}}\u2028\ud800"
PR_SET_NAME = 15


class Hostile:
    __slots__ = ("payload", *(f"slot{i}" for i in range(20)))


def map_library(folder):
    name = os.fsencode(folder) + b"/\x1b[31m\x0c\xe2\x80\xa8 \xff\x85.abi3.so"
    Path(os.fsdecode(name)).write_bytes(bytes(mmap.PAGESIZE))
    number = os.open(name, os.O_RDONLY)
    return mmap.mmap(number, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ)


def main(folder):
    Hostile.__name__ = Hostile.__qualname__ = EVIL.replace("\ud800", "")
    Hostile.__module__ = EVIL
    keep = {EVIL: [Hostile() for _ in range(20_000)]}
    sys.modules["keeper"] = type(sys)("keeper")
    sys.modules["keeper"].keep = keep
    library = map_library(folder)
    thread = threading.Thread(target=time.sleep, args=(600,), daemon=True)
    ready, written = os.pipe()
    if os.environ.get("PASTURE_SNAPSHOT"):
        import pasture

        pasture.seal("freeze")
    worker = os.fork()
    if not worker:
        for item in keep[EVIL]:
            item.payload = keep
        os.write(written, b"x")
        time.sleep(600)
    os.read(ready, 1)
    thread.start()
    libc = ctypes.CDLL(None)
    Path(f"/proc/self/task/{thread.native_id}/comm").write_bytes(b"\x1b[31mt\xff\n")
    libc.prctl(PR_SET_NAME, b"py) R 1\n\x1b[31m\xff", 0, 0, 0)
    print(json.dumps({"parent": os.getpid(), "worker": worker}), flush=True)
    sys.stdin.read()
    os.kill(worker, 9)
    os.wait()
    library.close()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
