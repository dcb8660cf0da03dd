"""The file of `--auto`: a line for each object that workers have built after the fork.

The first line names the version; each other line is an entry, `KIND VALUE`, or a comment. Once an
entry was tried, `ok` or `refused` comes before it, and the reason of a refusal after a tab.
Any line may be deleted. Workers append lines; only a parent replaces the file.

Invariant: a value is a name or a constant of the program's code, by the rule of its kind, and a
reason is in pasture's words. Values of requests, caches or connections do not match the rules.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path

from pasture.errors import UsageError
from pasture.trust import private_files
from pasture.trust.foreign_files import read_trusted

Entries = Mapping[str, str]
"""Outcome by the line of an entry, `KIND VALUE`: `NEW`, `OK`, or the reason of a refusal."""

NEW, OK = "", "ok"

FIRST = "# pasture auto 1"
_SECOND = "# Written by pasture run --auto: what workers import and run. Any line may be deleted."
_MAX_BYTES = 8 << 20
_MAX_CHARACTERS = 2000  # characters of a line
_MOST = 20_000  # entries of one kind

_PATTERN = re.compile(r"(\d{1,5}) (\".*\")")
_TEMPLATE = re.compile(r"(django|jinja) (\S+) ([!-~](?:[ -~]*[!-~])?)")
_CODE = re.compile(r"([\w.]+):([\w.<>]+)")


def is_module(value: str) -> bool:
    """Whether a text is a module name that can be imported."""
    parts = value.split(".")
    return all(part.isidentifier() for part in parts) and parts[0] != "__main__"


def _is_pattern(value: str) -> bool:
    try:
        found = _PATTERN.fullmatch(value)
        return found is not None and isinstance(json.loads(found[2]), str)
    except ValueError:
        return False


KINDS: Mapping[str, Callable[[str], bool]] = {
    "module": is_module,
    # `django ENGINE NAME`, or `jinja MODULE:ATTRIBUTE NAME`.
    "template": lambda value: _TEMPLATE.fullmatch(value) is not None,
    # Flags, and the regular expression as JSON.
    "pattern": _is_pattern,
    # `MODULE:QUALIFIED_NAME` of code that ran. Nothing runs for it, so it is not tried.
    "code": lambda value: (found := _CODE.fullmatch(value)) is not None and is_module(found[1]),
}
"""The rule for values of each kind, in the order of the file. All but modules are sorted."""


def is_entry(line: str) -> bool:
    """Whether a line without an outcome is an entry."""
    kind, _, value = line.partition(" ")
    return len(line) <= _MAX_CHARACTERS and kind in KINDS and KINDS[kind](value)


def values_of(entries: Entries, kind: str) -> list[str]:
    """The values of one kind, with any outcome."""
    start = f"{kind} "
    return [line.removeprefix(start) for line in entries if line.startswith(start)]


def to_build(entries: Entries, *outcomes: str) -> list[str]:
    """The lines of the entries with one of these outcomes that a parent builds."""
    found = entries.items()
    return [line for line, one in found if one in outcomes and not line.startswith("code ")]


def read(path: Path) -> Entries:
    """The file's entries; empty without a file. Other lines are left out.

    Raises:
        UsageError: it cannot be read, another user may write it, or it has another version.
    """
    if not path.exists():
        return {}
    text = read_trusted(path, most_bytes=_MAX_BYTES).decode("utf-8-sig", errors="replace")
    first, *lines = text.split("\n")
    if text and first.rstrip() != FIRST:
        raise UsageError(
            f"cannot use {path}: its first line is not {FIRST!r}",
            hint="remove it, or name another file with --auto=FILE",
        )
    found: dict[str, str] = {}
    for entry, outcome in map(_parts, lines[:-1]):  # an incomplete line comes last
        if is_entry(entry) and not found.get(entry):
            found[entry] = outcome
    return {line: found[line] for kind in KINDS for line in _in_order(kind, found)}


def _parts(line: str) -> tuple[str, str]:
    mark, _, rest = line.rstrip("\r").partition(" ")
    if mark == OK:
        return rest, OK
    if mark == "refused":
        entry, _, why = rest.partition("\t")
        return entry, why or mark
    return line, NEW


def _in_order(kind: str, lines: Iterable[str]) -> Iterable[str]:
    own = [line for line in lines if line.startswith(f"{kind} ")]
    return islice(own if kind == "module" else sorted(own), _MOST)


def write(path: Path, entries: Entries) -> int:
    """Replace the file; returns its size in bytes. May raise OSError."""
    lines = [_shown(line, outcome) for line, outcome in entries.items()]
    data = "\n".join((FIRST, _SECOND, *lines, "")).encode()
    private_files.write(path, data)
    return len(data)


def _shown(line: str, outcome: str) -> str:
    if outcome == NEW:
        return line
    return f"{OK} {line}" if outcome == OK else f"refused {line}\t{outcome}"


def append(path: Path, lines: Iterable[str], start: int) -> None:
    """Add the entries that the file, which must exist, lacks from `start` on.

    Safe for several processes at once. May raise OSError.
    """
    number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(number).st_size
        others = os.pread(number, max(size - start, 0), start).decode(errors="replace")
        known = frozenset(others.split("\n"))
        data = "".join(f"{line}\n" for line in lines if line not in known and is_entry(line))
        if data and size + len(data) <= _MAX_BYTES:
            os.write(number, data.encode())
    finally:
        os.close(number)


def show_pattern(pattern: str, flags: int) -> str:
    """The value of an entry for a regular expression; `pattern_of` reads it."""
    return f"{flags} {json.dumps(pattern)}"


def pattern_of(value: str) -> tuple[str, int]:
    flags, _, pattern = value.partition(" ")
    return json.loads(pattern), int(flags)
