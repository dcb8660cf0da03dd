"""The documented changes of semantics, and the tests that assert what they change.

expected.toml holds one table for each change: its name, the reason, and by interpreter
the tests that fail for it. matrix/cpython/README.md says the same to people.
Invariant: a crash is never expected.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outcomes import Difference

FILE = Path(__file__).with_name("expected.toml")

MODES = ("sealed", "middle", "moments", "collector")


@dataclass(frozen=True, slots=True)
class Change:
    """A property of a process under pasture that CPython's tests see.

    Attributes:
        tests: ids by minor version, "*" in them stands for anything; a debug build has those
            of its version.
        modes: in which it is seen.
        message: a regular expression; the test's traceback holds it. Empty: any will do.
    """

    name: str
    reason: str
    tests: Mapping[str, Sequence[str]]
    modes: Sequence[str] = ("sealed", "middle", "moments")
    message: str = ""

    def explains(self, difference: Difference, minor: str, mode: str) -> bool:
        return (
            mode in self.modes
            and difference.sealed.outcome != "crashed"
            and any(matches(test, difference.test) for test in self.tests.get(minor, ()))
            and re.search(self.message, difference.sealed.detail) is not None
        )


def matches(pattern: str, test: str) -> bool:
    """Whether "*" of the pattern can be filled in to make the test's id."""
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), test) is not None


def load_changes(file: Path = FILE) -> list[Change]:
    tables = tomllib.loads(file.read_text(encoding="utf-8"))["change"]
    for table in tables:
        unknown = set(table.get("modes", ())) - set(MODES)
        if unknown:
            raise ValueError(f"{file.name}, {table['name']!r}: no such mode: {unknown}")
    return [Change(**table) for table in tables]


@dataclass(frozen=True, slots=True)
class Expected:
    """The changes that can be seen on one interpreter in one mode."""

    changes: Sequence[Change]
    minor: str
    mode: str

    def change_behind(self, difference: Difference) -> Change | None:
        found = (c for c in self.changes if c.explains(difference, self.minor, self.mode))
        return next(found, None)

    def unexpected(self, found: Iterable[Difference]) -> list[Difference]:
        return [difference for difference in found if self.change_behind(difference) is None]

    def outdated(self, found: Iterable[Difference], tests_run: Iterable[str]) -> list[str]:
        """Tests listed by their full id that were run and did not differ."""
        listed = {
            test
            for change in self.changes
            if self.mode in change.modes
            for test in change.tests.get(self.minor, ())
        }
        differing = {difference.test for difference in found}
        return sorted((listed & set(tests_run)) - differing)


def expected_for(changes: Sequence[Change], interpreter: str, mode: str) -> Expected:
    """`interpreter` as targets name it: "3.14", "3.14-dbg"."""
    return Expected(changes, interpreter.partition("-")[0], mode)
