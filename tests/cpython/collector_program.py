"""Runs one module of CPython's tests with the built-in full collection, or with ours.

    python collector_program.py RESULTS MODULE SECONDS [--site DIR] [--collector HOW]

HOW is "builtin"; "replaced", where `gc.collect` is a function that calls `pasture.collect`;
or "installed", where every full collection runs out of line, automatic ones too. Results
are written as module_program.py writes them.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

from module_program import prepare_regrtest, run_in_child


def use_collector(how: str) -> None:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("module")
    parser.add_argument("seconds", type=int)
    parser.add_argument("--site", help="directory that holds pasture, built for this interpreter")
    parser.add_argument(
        "--collector", choices=("builtin", "replaced", "installed"), default="builtin"
    )
    arguments = parser.parse_args()
    # In place of the directory of this file, whose names are not for the tests to import.
    sys.path[0:1] = [arguments.site] if arguments.site else []
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    results = os.open(arguments.results, flags, 0o666)
    prepare_regrtest(arguments.seconds)
    module = importlib.import_module(f"test.{arguments.module}")
    use_collector(arguments.collector)
    run_in_child(module, results, arguments.seconds)


if __name__ == "__main__":
    main()
