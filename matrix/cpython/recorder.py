"""Writes down what becomes of each test, line by line, as it happens.

A line is a JSON object: "test" (its unittest id), "outcome" and "detail". A line whose
"test" is empty is about the process: "skipped" (the module cannot be imported here, or does
not want to be), "sealed", "not sealed", "moments", "finished". Lines go past all buffers of the
process under test, so that a crash leaves behind what it hit.
"""

from __future__ import annotations

import json
import os
import unittest
from collections.abc import Callable
from typing import Any


class Recorder(unittest.TestResult):
    """Appends to the open file `results`, a descriptor.

    `between_tests`, if set, is called between tests until it returns True.
    """

    def __init__(self, results: int) -> None:
        super().__init__()
        self._results = results
        self.between_tests: Callable[[], bool] | None = None
        self._test = ""

    def fail(self, detail: str) -> None:
        """Have the test that runs, or that was the last one, fail."""
        self._write_line(self._test, "failed", detail)

    def note(self, event: str, detail: str = "") -> None:
        """Write down something of the process, not of one of its tests."""
        self._write_line("", event, detail)

    def _write(self, test: Any, outcome: str, detail: str = "") -> None:
        # Some tests put an attribute of that name into themselves.
        self._write_line(type(test).id(test), outcome, detail)

    def _write_line(self, test: str, outcome: str, detail: str) -> None:
        line = json.dumps({"test": test, "outcome": outcome, "detail": detail})
        os.write(self._results, line.encode() + b"\n")

    def _write_error(self, test: Any, outcome: str, error: Any) -> None:
        self._write(test, outcome, self._exc_info_to_string(error, test))  # type: ignore[attr-defined]

    def startTest(self, test: Any) -> None:  # noqa: N802
        super().startTest(test)
        self._test = type(test).id(test)
        self._write(test, "started")

    def stopTest(self, test: Any) -> None:  # noqa: N802
        super().stopTest(test)
        # unittest calls a test neither passed nor failed if one of its subtests did not pass.
        self._write(test, "ended")
        if self.between_tests is not None and self.between_tests():
            self.between_tests = None

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        super().addSuccess(test)
        self._write(test, "passed")

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addExpectedFailure(test, err)
        self._write(test, "passed")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self._write(test, "skipped", reason)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._write_error(test, "failed", err)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._write_error(test, "failed", err)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        super().addUnexpectedSuccess(test)
        self._write(test, "failed", "passed, which was not expected")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            detail = self._exc_info_to_string(err, test)  # type: ignore[attr-defined]
            self._write(test, "failed", f"{subtest._subDescription()}\n{detail}")
