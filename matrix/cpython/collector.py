"""Compares CPython's own tests under the out-of-line collector with those under its own.

    python matrix/cpython/collector.py 3.13 3.14 3.15 [--module NAME]... [--check-build]

Each module is run three times, in processes of its own: with the built-in collector, with
`gc.collect` replaced, and with every full collection out of line. A test that does not end
the same must be in expected.toml, with the reason; else the exit status is 1. One that a
second run does not show again is reported as unsteady, but a crash never is.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
from expected import expected_for, load_changes
from outcomes import Difference, ModuleRun, differences
from rich.console import Console
from targets import BUILD, REPOSITORY, Target, install, run_program

MODULES = (
    "test_gc",
    "test_weakref",
    "test_finalization",
    "test_generators",
    "test_io",
    "test_asyncio",
)


def find_target(minor: str, check_build: bool, seconds: int) -> Target:
    extra = "dbg" if check_build else "testsuite"
    command = [str(REPOSITORY / "tools/interpreters"), "path", minor, "--with"]
    for each in ("testsuite", extra):
        done = subprocess.run([*command, each], stdout=subprocess.PIPE, text=True, check=True)
    # Not the directory of the other comparison: both may run at a time.
    name = f"{minor}-collector" + "-check" * check_build
    python, site = Path(done.stdout.strip()), BUILD / name / "site"
    target = Target(name, python, site, seconds, warm=False, debug_build=check_build)
    install(target)
    return target


def run_with(target: Target, module: str, collector: str, again: str = "") -> ModuleRun:
    words = ["--collector", collector]
    return run_program(target, module, f"collector-{collector}{again}", words, target.seconds)


def steady(
    target: Target, plain: ModuleRun, run: ModuleRun, collector: str
) -> tuple[list[Difference], list[Difference]]:
    """The differences of a run, those that show again and those that do not."""
    expected = expected_for(load_changes(), target.name, "collector")
    found = expected.unexpected(differences(plain, run))
    if not found or any(each.sealed.outcome == "crashed" for each in found):
        return found, []
    again = run_with(target, run.module, collector, "-again")
    shown_again = {each.test for each in differences(plain, again)}
    return (
        [each for each in found if each.test in shown_again],
        [each for each in found if each.test not in shown_again],
    )


@click.command(help=__doc__)
@click.argument("minors", nargs=-1, required=True, metavar="3.X...")
@click.option("--module", "chosen", multiple=True, help="Instead of the documented list.")
@click.option("--check-build", is_flag=True, help="Debian's python3.X-dbg, and our verifier.")
@click.option("--seconds", default=900, show_default=True, help="Time limit of a module.")
def main(minors: tuple[str, ...], chosen: tuple[str, ...], check_build: bool, seconds: int) -> None:
    console = Console(soft_wrap=True)
    all_same = True
    for minor in minors:
        target = find_target(minor, check_build, seconds)
        for module in chosen or MODULES:
            plain = run_with(target, module, "builtin")
            for collector in ("replaced", "installed"):
                run = run_with(target, module, collector)
                found, unsteady = steady(target, plain, run, collector)
                console.print(
                    f"{target.name} {module} {collector}: {len(run.outcomes)} tests, "
                    f"{run.count('passed')} passed, {run.count('skipped')} skipped, "
                    f"{len(found)} differ, {len(unsteady)} unsteady, {run.seconds:.0f} s",
                    highlight=False,
                )
                for each in found:
                    console.print(
                        f"  {each.test}: {each.plain}, now {each.sealed.outcome}\n"
                        f"{each.sealed.detail}",
                        markup=False,
                        highlight=False,
                    )
                for each in unsteady:
                    console.print(f"  unsteady: {each.test}", markup=False, highlight=False)
                all_same = all_same and not found
    sys.exit(not all_same)


if __name__ == "__main__":
    main()
