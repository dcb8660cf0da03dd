"""A pytest plugin: the collected tests run in a forked child, whose parent was sealed or not.

    python -m pytest -p sealed_child --results FILE [--seal] [--seconds N] ...

Collection imports the test modules and all that they need. Right before the first test the
process seals itself, with --seal, and forks; the child runs the tests, and the parent only
passes on how it ended. FILE gets a line of JSON at the start and at the end of each test, past
all buffers, so that a crash leaves behind what it hit. The child ends as a child of pasture
ends; the parent ends normally and so finalizes a sealed heap.
"""

from __future__ import annotations

import faulthandler
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import ExitCode

NOT_SEALED = 90
"""The exit code of a run whose heap could not be sealed, and which therefore shows nothing."""

_ENDED_WELL = (ExitCode.OK, ExitCode.TESTS_FAILED)

_log = os.dup(2)  # before pytest captures it


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("sealed child")
    group.addoption("--results", type=Path, required=True, help="a line of JSON an event")
    group.addoption("--seal", action="store_true", help="call pasture.seal() before the fork")
    group.addoption("--seconds", type=int, default=600, help="time limit of the child")


def pytest_configure(config: Any) -> None:
    results = open_results(config.option.results)
    config.pluginmanager.register(Recorder(results), "sealed child's recorder")


def open_results(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.open(path, flags, 0o666)


def write_event(results: int, test: str, outcome: str, detail: str = "") -> None:
    line = json.dumps({"test": test, "outcome": outcome, "detail": detail})
    os.write(results, line.encode("utf-8", "backslashreplace") + b"\n")


def seal() -> None:
    """Seal this process, or end it: what a half-sealed one shows is worth nothing."""
    import pasture

    report = pasture.seal("seal")
    os.write(_log, f"{report}\n".encode())
    if not report.sealed:
        os.write(_log, b"not sealed: no test was run\n")
        os._exit(NOT_SEALED)


def fork_off(seconds: int) -> int | None:
    """Fork. Returns None in the child, and in the parent the child's exit code, once it ended.

    A signal that ended the child is 128 + its number.
    """
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(seconds, exit=True, file=_log)
        return None
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


class Recorder:
    """Forks in front of the first test, and writes down what becomes of each."""

    def __init__(self, results: int) -> None:
        self._results = results

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> Iterator[None]:
        if session.config.option.seal:
            seal()
        code = fork_off(session.config.option.seconds)
        if code is not None:
            ended_well = code in _ENDED_WELL
            pytest.exit("the tests ran in a child", returncode=0 if ended_well else code)
        done = yield
        faulthandler.cancel_dump_traceback_later()
        write_event(self._results, "", "finished")
        return done

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        write_event(self._results, nodeid, "started")

    def pytest_runtest_logreport(self, report: Any) -> None:
        # A test passes when its call did; setup and teardown only count if something came of them.
        if report.when != "call" and report.passed:
            return
        outcome, detail = report.outcome, ""
        if report.skipped and hasattr(report, "wasxfail"):
            outcome = "passed"  # it failed, as was expected
        elif not report.passed:
            detail = str(report.longrepr)
        write_event(self._results, report.nodeid, outcome, detail)

