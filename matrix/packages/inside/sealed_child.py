"""Inside a process under test: its tests run in a forked child, and it was sealed or not.

Tests that fork run in the sealed process itself.

Owns the seal, the fork and the file of events, to which test runners write a line of JSON at
the start and at the end of each test, past all buffers: a crash leaves behind what it hit. The
child ends as a child of pasture ends; the parent only passes on how, and ends normally, so that
it finalizes a sealed heap. Nothing of the test runners is known here.
"""

from __future__ import annotations

import faulthandler
import json
import os
from pathlib import Path

NOT_SEALED = 90
"""The exit code of a run whose heap could not be sealed, and which therefore shows nothing."""

TESTS_FAILED = 1

_log = os.dup(2)  # before a test runner captures it


def open_events(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.open(path, flags, 0o666)


def write_event(events: int, test: str, outcome: str, detail: str = "") -> None:
    line = json.dumps({"test": test, "outcome": outcome, "detail": detail})
    os.write(events, line.encode() + b"\n")


def write_finished(events: int) -> None:
    """Say that all tests were run. In the child, behind the last one."""
    faulthandler.cancel_dump_traceback_later()
    write_event(events, "", "finished")


def seal() -> None:
    """Seal this process, or end it: what a half-sealed one shows is worth nothing."""
    import pasture

    report = pasture.seal("seal")
    os.write(_log, f"{report}\n".encode())
    if not report.sealed:
        os.write(_log, b"not sealed: no test was run\n")
        os._exit(NOT_SEALED)


def fork_off(sealed: bool, seconds: int, tests_fork: bool = False) -> int | None:
    """Fork, sealed or not.

    Args:
        seconds: time limit of the child; past it, it writes where it is and ends.
        tests_fork: do not fork; this process is the child that the rest is about.

    Returns:
        None in the child. In the parent, once the child has ended, its exit code, or 128 and
        the number of the signal that ended it; failed tests are no failure of the child.
    """
    if sealed:
        seal()
    pid = 0 if tests_fork else os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(seconds, exit=True, file=_log)
        return None
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == TESTS_FAILED:
        return 0
    return code if code >= 0 else 128 - code
