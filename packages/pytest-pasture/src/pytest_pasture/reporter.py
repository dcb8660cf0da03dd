"""The terminal reporter of a worker, which writes to /dev/null.

It makes no words for a test that passed, and keeps a tuple in the place of the report. `stats` are
complete for any code that reads them.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator
from itertools import islice
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

from pytest_pasture.events import Interactor, Location, are_pytests


class Reporter(TerminalReporter):  # type: ignore[misc]  # final, so it has no other heirs
    interactor: Interactor
    _keywords: dict[str, Any] | None = None

    @property
    def stats(self) -> dict[str, list[Any]]:
        """Reports by category, those that were put off among them."""
        times = iter(self._times)
        for when, nodeid, location, keywords in self._put_off:
            duration, start, stop = islice(times, 3)
            category = "passed" if when == "call" else ""
            report = pytest.TestReport(
                *(nodeid, location, dict(keywords), "passed", None, when),
                duration=duration,
                start=start,
                stop=stop,
            )
            self._stats.setdefault(category, []).append(report)
        self._put_off.clear()
        del self._times[:]
        return self._stats

    @stats.setter
    def stats(self, stats: dict[str, list[Any]]) -> None:
        self._stats = stats
        self._put_off: list[tuple[Any, ...]] = []
        self._times = array("d")

    def pytest_runtest_logstart(self, nodeid: str, location: Location) -> None:
        if self.showlongtestinfo:  # what a subtest reports next to it, the test has captured
            super().pytest_runtest_logstart(nodeid, location)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self.config.hook.pytest_report_teststatus
        if not self.interactor.has_only_passed(report) or not are_pytests(hook):
            super().pytest_runtest_logreport(report)
            return
        self._tests_ran = True
        if report.keywords != self._keywords:
            self._keywords = dict(report.keywords)
        self._put_off.append((report.when, report.nodeid, report.location, self._keywords))
        self._times.extend((report.duration, report.start, report.stop))

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(
        self, session: pytest.Session, exitstatus: int | pytest.ExitCode
    ) -> Generator[None]:
        hook = self.config.hook.pytest_terminal_summary
        if {"failed", "error"}.isdisjoint(self._stats) and are_pytests(hook):
            return (yield)
        return (yield from super().pytest_sessionfinish(session, exitstatus))
