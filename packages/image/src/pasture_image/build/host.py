"""What `pasture-python` itself finds out of the machine, and of files: src/stub/host.c, content.c.

The program that compares is the program that records, so that both always mean the same.
"""

from __future__ import annotations

import os
import posix
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pasture.errors import ImageFailed
from pasture_image.inside import memory

OPTION = "--pasture-facts"


class Fact(NamedTuple):
    """One number that an image in a file depends on.

    Attributes:
        value: here.
        name: of it, for people.
    """

    value: int
    name: str


def facts(stub: Path) -> tuple[Fact, ...]:
    """Of this machine.

    Raises:
        ImageFailed: the stub does not answer.
    """
    return tuple(Fact(int(value, 16), name) for _, value, name in _answer(stub, ()) if name)


def sums(stub: Path, paths: Iterable[str]) -> dict[str, int]:
    """Checksums of the files that can be read, by path."""
    answers = _answer(stub, asked) if (asked := tuple(paths)) else ()
    found = [(rule, int(value, 16)) for rule, value, name in answers if not name]
    return {path: known for path, (rule, known) in zip(asked, found, strict=True) if rule == "-"}


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
