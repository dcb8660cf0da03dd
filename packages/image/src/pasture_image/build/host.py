"""What `pasture-python` itself finds out of the machine, and of files: src/stub/host.c, content.c.

The program that compares is the program that records, so that both always mean the same.
"""

from __future__ import annotations

import os
import posix
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pasture.errors import ImageFailed
from pasture_image.inside import memory

OPTION = "--pasture-facts"
NATIVE = "native"
_ANY = 0
"""Of `host_rule` of src/stub/host.h."""
_MODEL, _LAST = 3, 9
"""Facts by their place in src/stub/host.c."""


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


def rules(cpu: str, found: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """What an image asks of a machine: rule and value of each fact. Libraries choose functions by
    CPUID when they are loaded, and the choice lies in the image.

    Args:
        cpu: `NATIVE`, or "" for a processor of the build's model.
        found: the same of the machine of the build.

    Raises:
        ImageFailed: this kind of machine has models alone.
    """
    needed = list(found)
    if cpu and len(found) <= _LAST:
        raise ImageFailed("--cpu is for x86-64", hint="omit it")
    if cpu:
        needed[_MODEL] = (_ANY, 0)
    return tuple(needed)


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
    """Without `subprocess`: what it calls may be replaced in a builder, as gevent does."""
    number = memory.create("pasture-facts")
    try:
        words = (str(stub), OPTION, *paths)
        out = ((os.POSIX_SPAWN_DUP2, number, 1),)
        _, status = posix.waitpid(posix.posix_spawn(stub, words, {}, file_actions=out), 0)
        if status:
            raise ValueError(f"it ended with status {os.waitstatus_to_exitcode(status)}")
        lines = os.fsdecode(memory.read(number)).split("\n")[:-1]
        return [(rule, value, name) for rule, value, name in (line.split(" ", 2) for line in lines)]
    except (OSError, ValueError) as error:
        raise ImageFailed(
            f"{stub} does not say what this machine is: {error}",
            hint="install pasture[image] again: it is of another version",
        ) from None
    finally:
        posix.close(number)
