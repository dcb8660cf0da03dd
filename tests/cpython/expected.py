"""The documented changes of semantics, and the tests that assert what they change.

expected.toml holds one table for each change: its name, the reason, and by interpreter
the tests that fail for it. docs/internals/cpython-tests.md says the same to people.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outcomes import Difference

FILE = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True, slots=True)
class Change:
    """A property of a sealed process that CPython's tests see.

    Attributes:
        tests: ids by minor version; a debug build has those of its version.
    """

    name: str
    reason: str
    tests: Mapping[str, Sequence[str]]


def load_changes(file: Path = FILE) -> list[Change]:
    tables = tomllib.loads(file.read_text(encoding="utf-8"))["change"]
    return [Change(table["name"], table["reason"], table["tests"]) for table in tables]


def expected_tests(changes: Iterable[Change], interpreter: str) -> dict[str, Change]:
    """The change that each listed test asserts, by test id."""
    minor = interpreter.removesuffix("-dbg")
    return {test: change for change in changes for test in change.tests.get(minor, ())}


def unexpected(found: Iterable[Difference], expected: Mapping[str, Change]) -> list[Difference]:
    return [difference for difference in found if difference.test not in expected]


def outdated(
    found: Iterable[Difference], expected: Mapping[str, Change], tests_run: Iterable[str]
) -> list[str]:
    """Listed tests that were run and did not differ."""
    differing = {difference.test for difference in found}
    return sorted((set(expected) & set(tests_run)) - differing)
