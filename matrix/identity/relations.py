"""Relations between workers: whether all have the same of a thing, or each its own.

Pure: what workers wrote goes in, a word for each thing comes out, and what differs between two
ways of starting them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

EXPECTED = Path(__file__).with_name("expected.toml")

Relations = Mapping[str, str]
"""By thing, as `import: pid`."""


def relations_of(workers: Sequence[Mapping[str, Mapping[str, Any]]]) -> Relations:
    """What holds between workers, of what each of them has by moment and name.

    The words are `all equal`, `all differ`, or `some differ`; with `, its own` where each has what
    it would take now.
    """
    found = {}
    for moment, names in workers[0].items():
        for name in names:
            values = [repr(one[moment].get(name)) for one in workers]
            number = len(set(values))
            word = {1: "all equal", len(values): "all differ"}.get(number, "some differ")
            now = [repr(one["now"].get(name)) for one in workers]
            found[f"{moment}: {name}"] = word + (", its own" if values == now else "")
    return found


@dataclass(frozen=True, slots=True)
class Difference:
    """A thing that is another one under pasture than without."""

    engine: str
    mode: str
    thing: str
    plain: str
    here: str

    def __str__(self) -> str:
        where = f"{self.engine}, {self.mode}: {self.thing}"
        return f"{where}: {self.plain} in plain workers, {self.here} here"


def differences(engine: str, mode: str, plain: Relations, here: Relations) -> Iterator[Difference]:
    """What differs, apart from things that the one or the other has not."""
    for thing, word in plain.items():
        if thing in here and here[thing] != word:
            yield Difference(engine, mode, thing, word, here[thing])


@dataclass(frozen=True, slots=True)
class Accepted:
    """A row of expected.toml: differences that have a reason."""

    reason: str
    engines: tuple[str, ...]
    modes: tuple[str, ...]
    moments: tuple[str, ...]
    things: tuple[str, ...]

    def covers(self, one: Difference) -> bool:
        moment, _, name = one.thing.partition(": ")
        asked = (
            (one.engine, self.engines),
            (one.mode, self.modes),
            (moment, self.moments),
            (name, self.things),
        )
        return all(any(fnmatchcase(what, one) for one in patterns) for what, patterns in asked)


def accepted() -> tuple[Accepted, ...]:
    """The rows of expected.toml; `*` is everything."""
    rows = tomllib.loads(EXPECTED.read_text(encoding="utf-8"))["accepted"]
    return tuple(
        Accepted(
            row["reason"],
            *(tuple(row.get(key, ["*"])) for key in ("engines", "modes", "moments", "things")),
        )
        for row in rows
    )


def reason_for(one: Difference, rows: Sequence[Accepted]) -> str | None:
    """The reason of the first row that covers it; None without one."""
    return next((row.reason for row in rows if row.covers(one)), None)
