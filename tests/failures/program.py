"""`program.py ENTRY KIND MODE FIRST STEP [once]`: an entry point again and again, with failures.

Runs with failing.c loaded, and for calls of the system as the tracee of calls.c. It prepares, and
forks a process for each STEP-th n from FIRST on. There the n-th request fails while the entry
point runs, and a line is written, as JSON: n, what failed, what was raised, what is wrong. The last
line is of the first n that was never reached.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import signal
import sys
import traceback
from array import array
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import entries
import failing
from entries import Entry

TIMEOUT_S = 120
REPEAT_S = 2.0
"""An entry point that takes longer for all its repetitions is not judged by them."""
LEAKS = 130
"""How often the same failure is repeated, to see whether anything grows once caches are full."""
REPEATS = sys.argv[6:] != ["once"]
LAST = 10
CRASHES = 20
"""After so many, one after the other, no more are looked for."""
FREE_LISTS = 100
"""So many lists, dictionaries and methods the interpreter keeps, and gives without a request."""
HELD = ("blocks of the interpreter", "open files", "mappings")


def arm(kind: str, mode: int, n: int) -> None:
    if kind == "calls":
        failing.calls(n, mode)
    else:
        failing.memory(n, mode == 3, kind != "malloc", kind == "places")


def attempt(entry: Entry, kind: str, mode: int, n: int) -> tuple[int, BaseException | None]:
    """What failed, by its number, and what the entry point raised."""
    raised = None
    none_free = [([], {}, [].append) for _ in range(FREE_LISTS)]
    arm(kind, mode, n)
    try:
        entry.run()
    except BaseException as error:
        if not failing.arms():
            raise  # a child's end
        raised = error
    failed = failing.none_fails()
    del none_free
    return failed, raised


def held() -> tuple[int, int, int]:
    """As HELD says."""
    blocks, mappings = sys.getallocatedblocks(), 0
    maps = os.open("/proc/self/maps", os.O_RDONLY)
    while text := os.read(maps, 1 << 16):
        mappings += text.count(b"\n")
    os.close(maps)
    return blocks, len([*Path("/proc/self/fd").iterdir()]), mappings


def grown(entry: Entry, kind: str, mode: int, n: int) -> str | None:
    """What every repetition of a failure takes more of."""
    sys.unraisablehook = lambda _: None  # printing a traceback takes memory that stays
    seen = [array("q", bytes(8 * LEAKS)) for _ in HELD]
    end = monotonic() + REPEAT_S
    for i in range(LEAKS):
        if monotonic() > end:
            return None
        entry.again()
        attempt(entry, kind, mode, n)
        gc.collect()
        for values, value in zip(seen, held(), strict=True):
            values[i] = value
    for name, values in zip(HELD, seen, strict=True):
        steps = [b - a for a, b in zip(values[-LAST:], values[-LAST + 1 :], strict=False)]
        if min(steps) > 0:
            return f"{min(steps)} more {name} with each failure"
    return None


def one(entry: Entry, kind: str, mode: int, n: int) -> dict[str, Any]:
    """In a process of its own."""
    entry.again()
    before = entries.state()
    failed, raised = attempt(entry, kind, mode, n)
    line: dict[str, Any] = {
        "n": n,
        "failed": failed,
        "raised": type(raised).__name__ if raised else "",
    }
    if not failed:
        if raised is not None:
            line["wrong"] = "nothing failed, and it raised\n" + "".join(
                traceback.format_exception(raised)
            )
        return line
    wrong = []
    if raised is not None and not isinstance(raised, entry.may_raise):
        wrong.append("raised\n" + "".join(traceback.format_exception(raised)))
    raised = None
    after = entries.state()
    if after != before and not entry.changes_state:
        wrong.append(f"the state was {before} and is {after}")
    wrong += entry.look()
    wrong += entry.check()
    if (
        REPEATS
        and entry.can_repeat
        and (n <= 20 or n % 50 == 0)
        and (leak := grown(entry, kind, mode, n))
    ):
        wrong.append(leak)
    if wrong:
        line["wrong"] = "\n".join(wrong)
    return line


def ended(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"status {os.WEXITSTATUS(status)}" if status else ""


def in_child(work: Callable[[], dict[str, Any]], n: int) -> dict[str, Any]:
    """The line that a child makes; one that ends badly, or not in time, is wrong."""
    path = Path(f"line-{os.getpid()}")
    errors = Path(f"errors-{os.getpid()}")
    path.write_text("")
    errors.write_text("")
    pid = os.fork()
    if pid == 0:
        file = os.open(errors, os.O_RDWR | os.O_TRUNC)
        os.dup2(file, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.close(file)
        faulthandler.enable()
        signal.alarm(TIMEOUT_S)
        path.write_text(json.dumps(work()))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    text = path.read_text()
    line = json.loads(text) if text else {"n": n, "failed": -1, "raised": ""}
    if status or not text:
        line["wrong"] = f"ended by {ended(status)}\n{errors.read_text()[-3000:]}"
    return line


def main() -> None:
    name, kind = sys.argv[1:3]
    mode, first, step = map(int, sys.argv[3:6])
    entry = entries.ENTRIES[name]
    if imported := in_child(lambda: {"modules": entries.imports(entry)}, 0).get("modules"):
        for module in imported:
            with contextlib.suppress(ImportError):  # what others have put there under a name
                __import__(module)
    entry.prepare()
    crashes = 0
    for n in count(first, step):
        line = in_child(lambda n=n: one(entry, kind, mode, n), n)
        print(json.dumps(line), flush=True)
        crashes = crashes + 1 if line["failed"] < 0 else 0
        if line["failed"] == 0 or crashes == CRASHES:
            break


main()
