"""Extension modules for the stable ABI: whether they count references, and their packages.

A file that a server has mapped may belong to another user.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from pasture.interpreter import FIRST_IMMORTAL
from pasture.proc.packages import distribution_of, name_of, read_text
from pasture.trust.untrusted_text import printable
from pasture_tools.proc.elf import read_elf

_COUNTS_INLINE = "_Py_Dealloc"  # called at a count of 0 by code that counts inline


@dataclass(frozen=True, order=True, slots=True)
class Wheel:
    """The package of a module."""

    name: str  # name and version of the package; name of the file where no package has it
    # The oldest version of Python, as in "cp38-abi3"; None if it is not known.
    built_for: str | None

    @property
    def knows_immortality(self) -> bool:
        """Whether it was built for a version with immortal objects."""
        found = re.match(r"cp3(\d+)", self.built_for or "")
        return bool(found) and int(found[1]) >= FIRST_IMMORTAL[1] if found else False

    def __str__(self) -> str:
        return f"{self.name} (built for {self.built_for or 'an unknown version'})"


@dataclass(frozen=True, slots=True)
class Module:
    """An extension for the stable ABI."""

    file: str
    wheel: Wheel | None  # its package, if it counts references inline; else None


def is_stable_abi(file: str) -> bool:
    """Whether a file is such a module, by its name."""
    return file.endswith(".abi3.so")


def read_module(file: str) -> Module:
    """Read a module, and its package if it counts references."""
    if _COUNTS_INLINE not in read_elf(file).needs:
        return Module(file, None)
    info = distribution_of(file)
    if info is None:
        return Module(file, Wheel(printable(PurePath(file).name), None))
    tag = re.search(r"^Tag: (\S+-abi3)-", read_text(str(info / "WHEEL")), re.M)
    return Module(file, Wheel(name_of(info), tag[1] if tag else None))
