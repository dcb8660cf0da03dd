"""Runs Django's own tests in a forked child, whose parent was sealed or not.

    python django_sealed_child.py --events FILE [--seal] [--seconds N] runtests.py LABEL...

Django's runner finds the tests and makes the databases, in memory; right before the first test
the process forks, and the child runs the tests (sealed_child.py).
"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

from sealed_child import fork_off, open_events, write_finished


def run_in_child(arguments: argparse.Namespace) -> None:
    """Have Django's runner fork in front of its first test."""
    from django.test.runner import DiscoverRunner  # type: ignore[import-untyped,unused-ignore]
    from recorder import Recorder

    def run_suite(self: Any, suite: Any, **options: Any) -> Any:
        code = fork_off(arguments.seal, arguments.seconds)
        if code is not None:
            sys.exit(code)
        events = open_events(arguments.events)
        recorder = Recorder(events)
        suite.run(recorder)
        write_finished(events)
        return recorder

    DiscoverRunner.run_suite = run_suite


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--seal", action="store_true")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("program", type=Path)
    parser.add_argument("labels", nargs="*")
    arguments = parser.parse_args()
    run_in_child(arguments)
    # As if Python had been called with it: its folder, not ours, is for the tests to import.
    sys.path.insert(0, str(arguments.program.parent))
    sys.argv = [str(arguments.program), "--parallel=1", *arguments.labels]
    runpy.run_path(str(arguments.program), run_name="__main__")


if __name__ == "__main__":
    main()
