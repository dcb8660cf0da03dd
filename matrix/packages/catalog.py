"""The packages whose tests are run: what packages.toml says of each.

Pure reading. Invariant: a `Package` holds all that decides which tests are run and how, so
that two results can be compared if theirs are equal.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("packages.toml")


@dataclass(frozen=True, slots=True)
class Package:
    """One table of packages.toml; the keys are explained there.

    Attributes:
        newest: no distribution that was uploaded later is installed.
        seconds: time limit of one run.
        tests_fork: the tests run in the sealed process itself.
        redis: argument of the tests with the address of a Redis, which is started.
    """

    name: str
    newest: str
    version: str
    source: str
    tests: Sequence[str]
    python: str = "3.14"
    requires: Sequence[str] = ()
    unpack: Sequence[str] = ()
    arguments: Sequence[str] = ()
    runner: str = "pytest"
    environment: Mapping[str, str] = field(default_factory=dict)
    leave_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seconds: int = 600
    tests_fork: bool = False
    redis: str = ""

    @property
    def left_out(self) -> list[str]:
        """Ids of tests, files and folders that are not run."""
        return [test for tests in self.leave_out.values() for test in tests]

    def as_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)


def load_packages(file: Path = FILE) -> dict[str, Package]:
    """Dict of name to package, in the order of the file."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    newest = tables.pop("newest")
    return {name: Package(name=name, newest=newest, **table) for name, table in tables.items()}
