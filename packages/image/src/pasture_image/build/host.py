"""What `pasture-python` itself finds out of the machine, and of files: src/stub/host.c, content.c.

The program that compares is the program that records, so that both always mean the same.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pasture.errors import ImageFailed

OPTION = "--pasture-facts"
_TIMEOUT_S = 120.0


class Fact(NamedTuple):
    """One number that an image in a file depends on.

    Attributes:
        rule: how it is compared, `host_rule` of src/stub/host.h.
        value: here.
        name: of it, for people.
    """

    rule: int
    value: int
    name: str


def facts(stub: Path) -> tuple[Fact, ...]:
    """Of this machine.

    Raises:
        ImageFailed: the stub does not answer.
    """
    return tuple(
        Fact(int(rule), int(value, 16), name) for rule, value, name in _answer(stub, ()) if name
    )


def sums(stub: Path, paths: Iterable[str]) -> dict[str, int]:
    """Checksums of files, by path.

    Raises:
        ImageFailed: one of them cannot be read.
    """
    asked = tuple(paths)
    if not asked:
        return {}
    found = [int(value, 16) for rule, value, _ in _answer(stub, asked) if rule == "-"]
    return dict(zip(asked, found, strict=True))


def _answer(stub: Path, paths: tuple[str, ...]) -> list[tuple[str, str, str]]:
    try:
        done = subprocess.run(
            [stub, OPTION, *paths],
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
            text=True,
            errors="surrogateescape",
            env={},
        )
        return [(r, v, n) for r, v, n in (line.split(" ", 2) for line in done.stdout.splitlines())]
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ImageFailed(
            f"{stub} does not say what this machine is: {error}",
            hint="install pasture[image] again: it is of another version",
        ) from None
