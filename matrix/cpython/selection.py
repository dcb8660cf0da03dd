"""Which modules the interpreter's own test package has, and in what order they are run."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterable, Mapping, Sequence
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


def choose(modules: Sequence[str], names: Sequence[str]) -> list[str]:
    """The modules of these names, packages with all of theirs; all modules if none is named.

    Raises:
        click.BadParameter: there is no such module.
    """
    for name in names:
        if not any(is_part_of(module, name) for module in modules):
            raise click.BadParameter(f"there is no module {name!r} among CPython's tests")
    return [m for m in modules if not names or any(is_part_of(m, name) for name in names)]


def is_part_of(module: str, name: str) -> bool:
    return f"{module}.".startswith(f"{name}.")


SLOW = ("test_concurrent_futures.", "test_multiprocessing_", "test_tools", "test_venv")
"""Beginnings of names of modules that take a minute each, for waiting most of the time."""


def quick_first(modules: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """In the order of the wall times that are known; before them others, but for `SLOW` ones."""

    def guess(module: str) -> float:
        return seconds.get(module, math.inf if module.startswith(SLOW) else 0.0)

    return sorted(modules, key=lambda module: (guess(module), module))
