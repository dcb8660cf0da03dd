"""The random program: `python program.py`, a list of operations as JSON on stdin.

Ends with 0 if all was well, with `FAILED` and the reason on stderr if an object is not what it
must be. Whatever else it ends with is a crash. SIGABRT has it and its children tell where
they are.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable
from random import Random
from typing import Any, NoReturn

from case import Operation
from operations import OPERATIONS, waiting
from world import World

FAILED = 77
PROGRESS = "fuzz: operations done: "

problems: list[str] = []


class Deliberate(Exception):
    """A child ends by an exception that nobody catches."""


def fork(operation: Operation, world: World) -> None:
    rng = Random(operation.seed)
    way = rng.choice(("_exit", "exit", "fall off", "exception", "signal"))
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        waiting.clear()  # threads do not survive a fork
        run(operation.nested, world)
        world.check()
        end_child(way)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    expected = {"_exit": 3, "exit": 4, "fall off": 0, "exception": 1, "signal": -signal.SIGTERM}
    if ended != expected[way]:
        raise AssertionError(f"a child that ends by {way!r} ended with {ended}")


def end_child(way: str) -> NoReturn:
    if way == "_exit":
        os._exit(3)
    if way == "exception":
        raise Deliberate
    if way == "signal":
        os.kill(os.getpid(), signal.SIGTERM)
    raise SystemExit(4 if way == "exit" else 0)


def run(operations: Iterable[Operation], world: World) -> int:
    done = 0
    for operation in operations:
        if operation.name == "fork":
            fork(operation, world)
        else:
            OPERATIONS[operation.name](Random(operation.seed), world)
        if problems:
            raise AssertionError(problems[0])
        done += 1
    return done


def note_unraisable(what: Any) -> None:
    if what.exc_type not in (MemoryError, ValueError):  # a failed collection; RaisingToken
        problems.append(f"unraisable in {what.object!r}: {what.exc_type} {what.exc_value}")


def note_in_thread(what: Any) -> None:
    if what.exc_type is not MemoryError:
        problems.append(f"in a thread: {what.exc_type} {what.exc_value}")


def main() -> None:
    faulthandler.enable()
    sys.unraisablehook = note_unraisable
    threading.excepthook = note_in_thread
    operations = [Operation.from_json(each) for each in json.load(sys.stdin)]
    world = World()
    try:
        done = run(operations, world)
        world.check()
    except (SystemExit, Deliberate):
        raise
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(FAILED)
    print(f"{PROGRESS}{done}", flush=True)


if __name__ == "__main__":
    main()
