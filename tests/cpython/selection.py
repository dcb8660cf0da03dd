"""Which modules the interpreter's own test package has, and in what order they are run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

FIND = """\
from test.libregrtest.findtests import findtests
print(*findtests(), sep="\\n")
"""


def find_modules(python: Path) -> list[str]:
    """Every module that regrtest runs, without the package "test" before its name."""
    command = [str(python), "-I", "-c", FIND]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise click.ClickException(f"{python} has no tests of its own")
    return sorted(name.removeprefix("test.") for name in done.stdout.split())


def quick_first(modules: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """In the order of the wall times that are known; before them all the others."""
    return sorted(modules, key=lambda module: (seconds.get(module, 0.0), module))
