"""The profile: one file of lines, which belongs in the user's repository.

The first line names the version; each other line is an entry, `KIND VALUE`, or a comment. `KINDS`
is the schema, a row each. A line says nothing of others, so that lines can be deleted, and two
profiles merged by a tool that knows only lines. Modules are in the order in which they were
imported, all else is sorted.

What a value may be is its kind's rule, for the writer and the reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from pasture.errors import UsageError
from pasture.log_lines import first_of
from pasture.trust import private_files
from pasture.trust.foreign_files import read_trusted
from pasture.trust.untrusted_text import printable

VERSION = 1
MAX_BYTES = 4 << 20
MAX_CHARACTERS = 2000
"""Of a value."""

_FIRST = re.compile(r"# pasture profile (\d{1,9})\s*")
_HEADER = (
    f"# pasture profile {VERSION}",
    "# What workers build for themselves and their parent can build before the fork.",
    "# Written by `pasture learn`. Any line may be deleted.",
)
_MAX_PROBLEMS = 20

_PATH = re.compile(r"/[!-~]*")
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+")
_REQUEST = re.compile(rf"(GET|HEAD) (https?://{_HOST.pattern})?{_PATH.pattern}")
_PATTERN = re.compile(r"(\d{1,5}) (\".*\")")
_TEMPLATE = re.compile(r"(django|jinja) (\S+) ([!-~](?:[ -~]*[!-~])?)")
_CONNECTION = re.compile(r"(tcp \d{1,5}|unix [!-~]+)")


def is_module(value: str) -> bool:
    """Whether it is the name of a module that can be imported by it."""
    parts = value.split(".")
    return all(part.isidentifier() for part in parts) and parts[0] != "__main__"


def _is_cache(value: str) -> bool:
    module, _, name = value.partition(":")
    parts = name.removesuffix("(...)").split(".")
    return is_module(module) and all(part.isidentifier() for part in parts)


def _is_pattern(value: str) -> bool:
    try:
        found = _PATTERN.fullmatch(value)
        return found is not None and isinstance(json.loads(found[2]), str)
    except ValueError:
        return False


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda value: pattern.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of entry."""

    accepts: Callable[[str], bool]  # whether a value is one of this kind
    most: int  # entries of it in a profile
    is_ordered: bool = False  # as it was learned; else sorted


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        # Imported while no other module was: what it imports comes with it.
        "module": Kind(is_module, 5000, is_ordered=True),
        # A `functools.cache` by `MODULE:NAME`; with `(...)` one whose functions take arguments,
        # which are not kept: for the report alone.
        "cache": Kind(_is_cache, 1000),
        # Flags, and the regular expression as JSON.
        "pattern": Kind(_is_pattern, 1000),
        # `django ENGINE NAME`, or `jinja MODULE:ATTRIBUTE NAME`.
        "template": Kind(_matches(_TEMPLATE), 1000),
        # GET or HEAD, and a path or a URL, as of a warm-up.
        "request": Kind(_matches(_REQUEST), 200),
        # One that failed without the values that no profile keeps: not to be learned again.
        "failed": Kind(_matches(_REQUEST), 200),
        # Opened by workers, by port or path: for the report alone, never made beforehand.
        "connection": Kind(_matches(_CONNECTION), 100),
    }
)
"""In the order of the file."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The entries of a profile by their kinds."""

    entries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # lines of its file that are no entries, a sentence each

    def of(self, kind: str) -> tuple[str, ...]:
        """The values of one kind."""
        return self.entries.get(kind, ())

    def __add__(self, other: Profile) -> Profile:
        """Both; modules that only the other has come where they are there."""
        merged = {
            name: tuple(_woven(self.of(name), other.of(name)))
            for name in KINDS
            if self.of(name) or other.of(name)
        }
        return profile_of(merged, (*self.problems, *other.problems))

    def without(self, lines: Collection[str]) -> Profile:
        """Without these entries, each as its line in the file."""
        kept = {
            kind: tuple(value for value in values if f"{kind} {value}" not in lines)
            for kind, values in self.entries.items()
        }
        return profile_of(kept, self.problems)

    def __len__(self) -> int:
        return sum(map(len, self.entries.values()))

    @property
    def text(self) -> str:
        """What is in its file."""
        lines = [f"{kind} {value}" for kind, values in self.entries.items() for value in values]
        return "\n".join((*_HEADER, *lines, ""))


def profile_of(found: Mapping[str, Iterable[str]], problems: tuple[str, ...] = ()) -> Profile:
    """A profile of these values, but for those that their kinds do not accept, or too many."""
    entries = {}
    for name, kind in KINDS.items():
        values = dict.fromkeys(filter(kind.accepts, found.get(name, ())))
        kept = tuple(islice(values if kind.is_ordered else sorted(values), kind.most))
        if kept:
            entries[name] = kept
    return Profile(MappingProxyType(entries), problems)


def read(path: Path) -> Profile:
    """The profile in a file that no other user decides upon.

    Raises:
        UsageError: it cannot be read, is another user's or writable for all, is no profile, or one
            of another version.
    """
    data = read_trusted(path, most_bytes=MAX_BYTES)
    try:
        return parse(data.decode("utf-8-sig"))
    except ValueError as error:
        raise _unusable(path, f"it is no text: {error}") from None
    except UsageError as error:
        raise _unusable(path, error.message, error.hint) from None


def parse(text: str) -> Profile:
    """Read a profile's text; lines that are no entries are its problems.

    Raises:
        UsageError: it does not begin as a profile of this version does.
    """
    first, _, rest = text.partition("\n")
    version = _FIRST.fullmatch(first)
    if version is None:
        raise UsageError("it is no profile", hint=f"a profile's first line is {_HEADER[0]!r}")
    if int(version[1]) != VERSION:
        raise UsageError(
            f"it is a profile of version {version[1]}, and this pasture reads {VERSION}",
            hint="record it again with pasture learn",
        )
    found: dict[str, list[str]] = {}
    problems = []
    for number, line in enumerate(rest.split("\n"), start=2):
        kind, _, value = line.strip().partition(" ")
        if not kind or kind.startswith("#"):
            continue
        value = value.strip()
        if kind in KINDS and len(value) <= MAX_CHARACTERS and KINDS[kind].accepts(value):
            found.setdefault(kind, []).append(value)
        else:
            problems.append(f"line {number} is no entry: {printable(line[:80])}")
    return profile_of(found, tuple(first_of(problems, _MAX_PROBLEMS, "lines are no entries")))


def write(path: Path, profile: Profile) -> None:
    """Write a profile's file, whole or not at all; OSError where that cannot be."""
    private_files.write(path, profile.text)


def show_pattern(pattern: str, flags: int) -> str:
    """A regular expression as an entry has it."""
    return f"{flags} {json.dumps(pattern)}"


def pattern_of(value: str) -> tuple[str, int]:
    """The regular expression of an entry, and its flags."""
    flags, _, pattern = value.partition(" ")
    return json.loads(pattern), int(flags)


def _woven(first: tuple[str, ...], second: tuple[str, ...]) -> Iterator[str]:
    """All of the first; what the second alone has comes before what follows it there."""
    known = frozenset(first)
    before: dict[str, list[str]] = {}
    waiting: list[str] = []
    for value in second:
        if value in known:
            before[value], waiting = waiting, []
        else:
            waiting.append(value)
    for value in first:
        yield from before.get(value, ())
        yield value
    yield from waiting


def _unusable(path: Path, why: str, hint: str | None = None) -> UsageError:
    return UsageError(
        f"cannot use {path}: {why}", hint=hint or "record it again with pasture learn"
    )
