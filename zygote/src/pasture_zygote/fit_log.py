"""Reads what `recorded` has written: kinds of programs, how often each ran, what each imports.

A log chooses what is imported later, so it must be a plain file that this user or root owns and no
other may write to. Its lines are distrusted all the same: one that makes no sense is counted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pasture.profile.file import is_module
from pasture.trust.foreign_files import open_trusted
from pasture_zygote.recorded import MAX_LINE_BYTES, VERSION

MAX_LOG_BYTES = 64 << 20
MAX_KINDS = 64
MAX_MODULES = 500
"""Of a program; `recorded` notes those alone that no installed module imports."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Programs that cannot be distinguished when they start.

    Attributes:
        text: names that their text imports, as `pasture-python` finds them.
        count: how many ran.
        modules: that all of them have imported, in their order.
    """

    text: str
    count: int
    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Log:
    """What a log says of one interpreter and its options.

    Attributes:
        kinds: the most frequent ones first.
        rare: programs of further kinds.
        others: programs of other versions of Python, or with other options.
        malformed: lines that make no sense.
        packages: how many states of the installed packages there were.
    """

    kinds: tuple[Kind, ...]
    rare: int = 0
    others: int = 0
    malformed: int = 0
    packages: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """One line."""

    version: str
    packages: str
    options: str
    text: str
    is_by_python: bool
    modules: tuple[str, ...]


def read(paths: Iterable[Path], version: str, options: str) -> Log:
    """Read logs.

    Args:
        version: of Python, as `3.14`: only its programs count.
        options: of Python, with spaces between them: likewise.

    Raises:
        UsageError: a file cannot be read, or another user may write to it.
    """
    found: Counter[Record] = Counter()
    others = malformed = 0
    for path in paths:
        for line in _lines(path):
            record = parse(line)
            if record is None:
                malformed += 1
            elif record.options != options or not record.version.startswith(f"{version}."):
                others += 1
            else:
                found[record] += 1
    kinds = _kinds(found)
    return Log(
        tuple(kinds[:MAX_KINDS]),
        sum(kind.count for kind in kinds[MAX_KINDS:]),
        others,
        malformed,
        len({record.packages for record in found}),
    )


def _lines(path: Path) -> Iterable[bytes]:
    with os.fdopen(open_trusted(path, most_bytes=MAX_LOG_BYTES), "rb") as stream:
        left = MAX_LOG_BYTES  # it may grow
        while left > 0 and (line := stream.readline(MAX_LINE_BYTES + 1)):
            left -= len(line)
            yield line


def parse(line: bytes) -> Record | None:
    """A line of a log; None if it is none."""
    if not line.endswith(b"\n"):
        return None  # of a disk that was full, or not of `recorded`
    try:
        kind, version, packages, options, text, by, names = line[:-1].decode().split("\t")
    except ValueError:
        return None
    modules = tuple(names.split())
    if kind != VERSION or by not in ("python", "image") or len(modules) > MAX_MODULES:
        return None
    if not all(map(is_module, modules)) or not all(map(is_module, filter(None, text.split(",")))):
        return None
    return Record(version, packages, options, text, by == "python", modules)


def _kinds(found: Counter[Record]) -> list[Kind]:
    by_text: dict[str, list[Record]] = {}
    for record in found:
        by_text.setdefault(record.text, []).append(record)
    kinds = [
        Kind(text, sum(found[record] for record in records), _common(records))
        for text, records in by_text.items()
    ]
    return sorted(kinds, key=lambda kind: (-kind.count, kind.text))


def _common(records: Sequence[Record]) -> tuple[str, ...]:
    """Names that all have imported. A program out of an image does not show what it uses of it, so
    those count only where there are no others."""
    shown = [record for record in records if record.is_by_python] or records
    common = set.intersection(*(set(record.modules) for record in shown))
    return tuple(name for name in shown[0].modules if name in common)
