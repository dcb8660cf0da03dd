"""Runs one module of CPython's tests in a forked child.

    python module_program.py RESULTS MODULE SECONDS [--site DIR] [--seal HOW] [--warm]
        [--fork-after SHARE] [--moments SEED] [--collector HOW] [--resource NAME]...

The parent imports the module and all it needs, with --warm also runs its tests once, so
that the bytecode is specialized and caches are filled; then it seals (if asked to) and forks,
and the child runs the tests. With --fork-after the parent runs this share of the tests, and
seals and forks between two of them: fixtures, generators and frames are alive then, and the
child goes on with the rest. With --moments the parent runs them all, and seals, collects and
forks at random moments (moments.py).

The child writes RESULTS (recorder.py). It ends the way a child of pasture ends; the parent,
too, ends normally and so finalizes a sealed heap.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import os
import random
import signal
import sys
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recorder import Recorder

RESOURCES = ("cpu", "decimal", "subprocess", "walltime")
"""Of regrtest's resources: those that need neither a network nor a desktop nor gigabytes."""


def prepare_regrtest(seconds: int, resources: tuple[str, ...] = RESOURCES) -> None:
    """What regrtest sets before it runs a module: CPython 3.14 Lib/test/libregrtest/setup.py."""
    # Some interpreters come without their tests, and none with types for them.
    from test import support  # type: ignore[import-not-found,unused-ignore]
    from test.libregrtest.setup import (  # type: ignore[import-not-found,unused-ignore]
        setup_process,
    )

    setup_process()
    # Where a shell runs the command in the background, SIGINT comes ignored (3.15 does this too).
    signal.signal(signal.SIGINT, signal.default_int_handler)
    support.use_resources = dict.fromkeys(resources)
    support.verbose = 0
    # Machines under load are slow: regrtest's own answer to that.
    support.SHORT_TIMEOUT = max(support.SHORT_TIMEOUT, seconds / 10)


def load_suite(module: Any) -> unittest.TestSuite:
    random.seed(0)
    return unittest.TestLoader().loadTestsFromModule(module)


def run_to_the_end(suite: unittest.TestSuite, recorder: Recorder, seconds: int) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True)
    suite.run(recorder)
    faulthandler.cancel_dump_traceback_later()
    recorder.note("finished")


def use_collector(how: str) -> None:
    """HOW is "builtin"; "replaced", where `gc.collect` calls `pasture.collect`; or "installed",
    where every full collection runs out of line, automatic ones too.
    """
    if how == "builtin":
        return
    import gc

    import pasture.gc

    if how == "installed":
        pasture.gc.install()
        return
    builtin = gc.collect

    def collect(generation: int = 2) -> int:
        return pasture.gc.collect() if generation == 2 else builtin(generation)

    gc.collect = collect


def seal(recorder: Recorder) -> bool:
    import pasture

    report = pasture.seal("seal")
    print(report, file=sys.stderr, flush=True)
    recorder.note("sealed" if report.sealed else "not sealed", report.reason or "")
    return report.sealed


def leave_to_child(pid: int) -> None:
    """End this process when the child has ended, and as it did."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


class Crossing:
    """Seals and forks once `tests` tests have been run and no other thread runs."""

    def __init__(self, recorder: Recorder, tests: int, sealing: bool, seconds: int) -> None:
        self._recorder = recorder
        self._tests_left = tests
        self._sealing = sealing
        self._seconds = seconds

    def __call__(self) -> bool:
        """Between two tests. Returns in the child alone when it is done."""
        self._tests_left -= 1
        # Not by the module threading, whose tests replace what it knows.
        if self._tests_left > 0 or len(sys._current_frames()) > 1:
            return False
        faulthandler.cancel_dump_traceback_later()
        if self._sealing and not seal(self._recorder):
            faulthandler.dump_traceback_later(self._seconds, exit=True)
            return False
        pid = os.fork()
        if pid:
            leave_to_child(pid)
        faulthandler.dump_traceback_later(self._seconds, exit=True)
        return True


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("module")
    parser.add_argument("seconds", type=int)
    parser.add_argument("--site", help="directory that holds pasture, built for this interpreter")
    parser.add_argument("--sealed", action="store_true", help="seal before the fork")
    parser.add_argument("--warm", action="store_true", help="run the tests in the parent, too")
    parser.add_argument("--fork-after", type=float, metavar="SHARE", help="of the tests: 0 to 1")
    parser.add_argument("--moments", metavar="SEED", help="seal, collect and fork at random ones")
    collectors = ("builtin", "replaced", "installed")
    parser.add_argument("--collector", choices=collectors, default="builtin")
    parser.add_argument("--resource", action="append", help="of regrtest's")
    return parser.parse_args()


def main() -> None:
    # Here and not above: multiprocessing imports this file in processes that it starts, with
    # the path that is set below.
    from recorder import Recorder

    arguments = parse_arguments()
    if arguments.moments:
        from moments import Moments
    # In place of the directory of this file, whose names are not for the tests to import.
    sys.path[0:1] = [arguments.site] if arguments.site else []
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    recorder = Recorder(os.open(arguments.results, flags, 0o666))
    prepare_regrtest(arguments.seconds, tuple(arguments.resource or RESOURCES))
    try:
        module = importlib.import_module(f"test.{arguments.module}")
    except Exception as error:
        recorder.note("skipped", f"{type(error).__name__}: {error}")
        return
    if arguments.warm:
        load_suite(module).run(Recorder(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)))
    use_collector(arguments.collector)
    if arguments.moments:
        moments = Moments(recorder, arguments.moments, is_sealing=arguments.sealed)
        recorder.between_tests = moments.between_tests
        suite = load_suite(module)
        moments.begin()
        run_to_the_end(suite, recorder, arguments.seconds)
        moments.end()
        return
    if arguments.fork_after is not None:
        suite = load_suite(module)
        first = max(1, int(suite.countTestCases() * arguments.fork_after))
        recorder.between_tests = Crossing(recorder, first, arguments.sealed, arguments.seconds)
        run_to_the_end(suite, recorder, arguments.seconds)
        if recorder.between_tests is not None and arguments.sealed:
            recorder.note("not sealed", "another thread ran between any two tests")
        return
    if arguments.sealed and not seal(recorder):
        sys.exit("not sealed")
    pid = os.fork()
    if pid:
        leave_to_child(pid)
    run_to_the_end(load_suite(module), recorder, arguments.seconds)


if __name__ == "__main__":
    main()
