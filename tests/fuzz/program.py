"""The random program, and the process that forks it: `python program.py [--large]`.

A request is a line of JSON on stdin: a seed, operations, and a file for the output. The answer
is the process id of the case, and when it is over a line with its exit status and CPU seconds.
`python program.py FILE` runs a stored failure in this process itself, for a debugger.

A case ends with 0 if all was well, with `FAILED` and the reason on stderr if an object is not
what it must be. Whatever else it ends with is a crash. On SIGABRT it and its children
report where they are.
"""

from __future__ import annotations

import errno
import faulthandler
import gc
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import holders
from case import Operation, longest_of
from interpreters import end_interpreter
from operations import OPERATIONS
from threads import leave_threads
from world import World

FAILED = 77
PROGRESS = "fuzz: operations done: "

problems: list[str] = []


class Deliberate(Exception):
    """A child ends by an exception that no code catches."""


def fork(operation: Operation, world: World) -> None:
    rng = Random(operation.seed)
    way = rng.choice(("_exit", "exit", "fall off", "exception", "signal"))
    end_interpreter(rng, world)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        leave_threads()
        with suppress(OutOfMemory):
            run(operation.nested, world)
            world.check()
        end_child(way, world)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    expected = {"_exit": 3, "exit": 4, "fall off": 0, "exception": 1, "signal": -signal.SIGTERM}
    if ended != expected[way]:
        raise AssertionError(f"a child that ends by {way!r} ended with {ended}")


def end_child(way: str, world: World) -> NoReturn:
    if sys.version_info < (3, 13):
        # At the end of such an interpreter a collection that is due runs in the midst of the last
        # one, and sub-interpreters that are left end it: without pasture, too.
        gc.disable()
        end_interpreter(Random(0), world)
    if way == "_exit":
        os._exit(3)
    if way == "exception":
        raise Deliberate
    if way == "signal":
        os.kill(os.getpid(), signal.SIGTERM)
    raise SystemExit(4 if way == "exit" else 0)


class OutOfMemory(Exception):
    """The program has no more memory under the limit that it has set itself."""


def carry_out_one(operation: Operation, world: World) -> None:
    try:
        OPERATIONS[operation.name](Random(operation.seed), world)
    except (MemoryError, OSError, RuntimeError) as error:
        scarce = isinstance(error, MemoryError) or "new thread" in str(error)
        if not world.limited or not (scarce or getattr(error, "errno", None) == errno.ENOMEM):
            raise
        raise OutOfMemory from None


def run(operations: Iterable[Operation], world: World) -> int:
    done = 0
    for operation in operations:
        if operation.name == "fork":
            fork(operation, world)
        else:
            carry_out_one(operation, world)
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


def carry_out(request: dict[str, Any]) -> None:
    """Run one case in this process; its exit status says how it went."""
    faulthandler.enable()
    sys.unraisablehook = note_unraisable
    threading.excepthook = note_in_thread
    holders.longest = longest_of(request["seed"])
    operations = [Operation.from_json(each) for each in request["operations"]]
    world = World()
    try:
        done = run(operations, world)
        world.check()
        end_interpreter(Random(0), world)
    except (SystemExit, Deliberate):
        raise
    except OutOfMemory:
        done = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(FAILED)
    print(f"{PROGRESS}{done}", flush=True)


def import_holders(large: bool) -> None:
    """They register themselves."""
    import holders_ends  # noqa: F401
    import holders_suspended  # noqa: F401

    if large:
        import moments_large  # noqa: F401


def become_case(output: str) -> None:
    """Leave the server's streams, and its session."""
    os.setsid()
    sys.stdin.close()
    for number, path in ((0, os.devnull), (1, output), (2, output)):
        opened = os.open(path, os.O_RDWR | os.O_APPEND)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)


def answer(what: Any) -> None:
    print(json.dumps(what), flush=True)


def serve() -> dict[str, Any] | None:
    """Fork a case for each request. Returns its request in a case, None when there are no more."""
    for line in iter(sys.stdin.readline, ""):
        request: dict[str, Any] = json.loads(line)
        case = os.fork()
        if case == 0:
            become_case(request["output"])
            return request
        answer(case)
        os.waitid(os.P_PID, case, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError):
            os.killpg(case, signal.SIGKILL)  # what it left behind
        _, status, usage = os.wait4(case, 0)
        answer([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime])
    return None


def main() -> None:
    import_holders("--large" in sys.argv)
    stored = [word for word in sys.argv[1:] if not word.startswith("-")]
    request = json.loads(Path(stored[0]).read_text()) if stored else serve()
    if request is not None:
        carry_out(request)


if __name__ == "__main__":
    main()
