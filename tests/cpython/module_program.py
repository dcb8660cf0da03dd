"""Runs one module of CPython's tests in a forked child, whose parent was sealed or not.

    python module_program.py RESULTS MODULE SECONDS [--site DIR] [--sealed] [--warm]

The parent imports the module and all it needs, with --warm also runs its tests once, so
that the bytecode is specialized and caches are filled; then it seals and forks. The
child runs the tests and appends a line of JSON to RESULTS at the start and at the end of
each, so that a crash leaves behind what it hit. It ends the way a child of pasture ends;
the parent, too, ends normally and so finalizes a sealed heap.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import random
import sys
import unittest
from pathlib import Path
from typing import Any

RESOURCES = ("cpu", "decimal", "subprocess", "walltime")
"""Of regrtest's resources: those that need neither a network nor a desktop nor gigabytes."""


class Recorder(unittest.TestResult):
    """Writes outcomes down as they come, past all buffers of the process under test."""

    def __init__(self, results: int) -> None:
        super().__init__()
        self._results = results

    def _write(self, test: Any, outcome: str, detail: str = "") -> None:
        line = json.dumps({"test": test.id(), "outcome": outcome, "detail": detail})
        os.write(self._results, line.encode() + b"\n")

    def _write_error(self, test: Any, outcome: str, error: Any) -> None:
        self._write(test, outcome, self._exc_info_to_string(error, test))  # type: ignore[attr-defined]

    def startTest(self, test: Any) -> None:  # noqa: N802
        super().startTest(test)
        self._write(test, "started")

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
            self._write_error(test, "failed", err)


def prepare_regrtest(seconds: int) -> None:
    """What regrtest sets before it runs a module: CPython 3.14 Lib/test/libregrtest/setup.py."""
    # Some interpreters come without their tests, and none with types for them.
    from test import support  # type: ignore[import-not-found,unused-ignore]
    from test.libregrtest.setup import (  # type: ignore[import-not-found,unused-ignore]
        setup_process,
    )

    setup_process()
    support.use_resources = list(RESOURCES)
    support.verbose = 0
    # Machines under load are slow: regrtest's own answer to that.
    support.SHORT_TIMEOUT = max(support.SHORT_TIMEOUT, seconds / 10)


def run(module: Any, results: int) -> None:
    random.seed(0)
    suite = unittest.TestLoader().loadTestsFromModule(module)
    suite.run(Recorder(results))


def run_in_child(module: Any, results: int, seconds: int) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True)
    run(module, results)
    faulthandler.cancel_dump_traceback_later()
    os.write(results, b'{"test": "", "outcome": "finished", "detail": ""}\n')


def seal() -> None:
    import pasture

    report = pasture.seal("seal", strict=True)
    print(report, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("module")
    parser.add_argument("seconds", type=int)
    parser.add_argument("--site", help="directory that holds pasture, built for this interpreter")
    parser.add_argument("--sealed", action="store_true")
    parser.add_argument("--warm", action="store_true")
    arguments = parser.parse_args()
    # In place of the directory of this file, whose names are not for the tests to import.
    sys.path[0:1] = [arguments.site] if arguments.site else []
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    results = os.open(arguments.results, flags, 0o666)
    prepare_regrtest(arguments.seconds)
    module = importlib.import_module(f"test.{arguments.module}")
    if arguments.warm:
        run(module, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
    if arguments.sealed:
        seal()
    pid = os.fork()
    if pid == 0:
        run_in_child(module, results, arguments.seconds)
        return
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
