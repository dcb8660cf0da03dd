"""Extension modules for the stable ABI: whether they count references, and who brought them.

Whatever lies where a server has mapped it may be another user's making.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from pasture.errors import UsageError
from pasture.proc.elf import read_elf
from pasture.trust.foreign_files import read_foreign

FIRST_IMMORTAL = (3, 12)
"""The version of CPython from which on objects can be immortal."""

_COUNTS_INLINE = "_Py_Dealloc"  # what counting down to 0 calls, where it is compiled in
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, order=True, slots=True)
class Wheel:
    """What a module came in.

    Attributes:
        name: name and version of the package; name of the file where no package has it.
        built_for: the oldest version of Python, as in "cp38-abi3"; None if it is not known.
    """

    name: str
    built_for: str | None

    @property
    def knows_immortality(self) -> bool:
        """Whether it was built for a version that does."""
        found = re.match(r"cp3(\d+)", self.built_for or "")
        return bool(found) and int(found[1]) >= FIRST_IMMORTAL[1] if found else False

    def __str__(self) -> str:
        return f"{self.name}, built for {self.built_for or 'an unknown version'},"


def _wheel_of(file: str) -> Wheel:
    """The package that says that it has brought a file."""
    for parent in Path(file).parents:
        if parent.name not in ("site-packages", "dist-packages"):
            continue
        inside = str(Path(file).relative_to(parent))
        for record in parent.glob("*.dist-info/RECORD"):
            if inside in read_text(str(record)):
                tag = re.search(r"^Tag: (\S+-abi3)-", read_text(str(record.parent / "WHEEL")), re.M)
                name = record.parent.name.removesuffix(".dist-info").replace("-", " ")
                return Wheel(name, tag[1] if tag else None)
    return Wheel(PurePath(file).name, None)


@dataclass(frozen=True, slots=True)
class Module:
    """An extension for the stable ABI.

    Attributes:
        file: its path.
        wheel: what it came in, if it counts references inline; None if it does not.
    """

    file: str
    wheel: Wheel | None


def is_stable_abi(file: str) -> bool:
    """Whether a file's name says that it is such a module."""
    return file.endswith(".abi3.so")


def read_module(file: str) -> Module:
    """Look into a module, and for its package if that matters."""
    return Module(file, _wheel_of(file) if _COUNTS_INLINE in read_elf(file).needs else None)


def read_text(path: str) -> str:
    """A file's content; "" if there is none, or none that can be read without harm."""
    try:
        return read_foreign(Path(path), most_bytes=_MOST_BYTES, owners=None).decode(
            errors="replace"
        )
    except UsageError:
        return ""
