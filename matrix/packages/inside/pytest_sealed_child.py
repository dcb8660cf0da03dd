"""A pytest plugin: the tests run in a forked child, whose parent was sealed or not.

    python -m pytest -p pytest_sealed_child --events FILE [--seal] [--seconds N] ...

Collection imports the test modules and all that they need. Right before the first test the
process forks; the child runs the tests (sealed_child.py). With --tests-fork the process itself
runs them, and what a test forks is counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sealed_child import fork_off, open_events, write_event, write_finished


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("sealed child")
    group.addoption("--events", type=Path, required=True, help="file for what becomes of each test")
    group.addoption("--seal", action="store_true", help="call pasture.seal() before the fork")
    group.addoption("--tests-fork", action="store_true", help="run the tests in this process")
    group.addoption("--seconds", type=int, default=600, help="time limit of the child")


def pytest_configure(config: Any) -> None:
    events = open_events(config.option.events)
    config.pluginmanager.register(Recorder(events), "recorder of the sealed child")


class Recorder:
    """Forks in front of the first test, and writes down what becomes of each."""

    def __init__(self, events: int) -> None:
        self._events = events
        self._forked: set[str] = set()
        self._test = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> Iterator[None]:
        option = session.config.option
        code = fork_off(option.seal, option.seconds, option.tests_fork)
        if code is not None:
            pytest.exit("the tests ran in a child", returncode=code)
        os.register_at_fork(before=lambda: self._forked.add(self._test))
        done = yield
        write_event(self._events, "", "forked", str(len(self._forked)))
        write_finished(self._events)
        return done

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = nodeid
        write_event(self._events, nodeid, "started")

    def pytest_runtest_logreport(self, report: Any) -> None:
        # A test passes when its call did; setup and teardown count if they had an outcome.
        if report.when != "call" and report.passed:
            return
        if report.skipped and hasattr(report, "wasxfail"):
            write_event(self._events, report.nodeid, "passed", "failed, as was expected")
        else:
            detail = "" if report.passed else str(report.longrepr)
            write_event(self._events, report.nodeid, report.outcome, detail)
