"""What differs between a plain run and one under pasture, and which of it has a reason.

Two plain runs say what differs by itself; that is not compared. Pure but for expected.toml.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from matrix.sites.browser import Step
from matrix.sites.catalog import HERE
from matrix.sites.runs import Run

EXPECTED: dict[str, dict[str, str]] = tomllib.loads((HERE / "expected.toml").read_text())
"""By site: pattern of what differs, and why."""

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it is plain.

    Attributes:
        what: a step, a table, a line of the log, the end.
        detail: both sides, for a reader.
    """

    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class Plain:
    """Two plain runs.

    Attributes:
        unsteady: names of what differed between them.
    """

    first: Run
    second: Run

    @property
    def unsteady(self) -> frozenset[str]:
        return frozenset(one.what for one in _differences(self.first, self.second))


def compare(plain: Plain, other: Run) -> list[Difference]:
    """What differs under pasture and does not differ between the plain runs."""
    unsteady = plain.unsteady
    found = _differences(plain.first, other)
    return [one for one in found if one.what not in unsteady and not _as_second(plain, one, other)]


def reason(site: str, one: Difference) -> str | None:
    """Why a site may differ so; None if that is not listed."""
    listed = EXPECTED.get(site, {})
    return next((why for each, why in listed.items() if re.search(each, one.what)), None)


def _as_second(plain: Plain, one: Difference, other: Run) -> bool:
    return one.what not in {each.what for each in _differences(plain.second, other)}


def _differences(plain: Run, other: Run) -> list[Difference]:
    if plain.failure != other.failure:
        return [Difference("the run", f"plain: {plain.failure or 'ended'}; now: {other.failure}")]
    found = _steps(_by_name(plain), _by_name(other))
    for table in sorted({*plain.rows, *other.rows}):
        ours, theirs = plain.rows.get(table), other.rows.get(table)
        if ours != theirs:
            found.append(Difference(f"rows of {table}", f"plain: {ours}; now: {theirs}"))
    for line in sorted({*other.complaints} - {*plain.complaints}):
        found.append(Difference(f"log: {line}", f"{other.complaints[line]} times"))
    if plain.exit_code != other.exit_code:
        detail = f"plain: {plain.exit_code}; now: {other.exit_code}"
        found.append(Difference("exit code", detail))
    if other.left > plain.left:
        found.append(Difference("processes left", f"plain: {plain.left}; now: {other.left}"))
    return found


def _by_name(run: Run) -> dict[str, Step]:
    return {step.name: step for step in run.steps}


def _steps(plain: Mapping[str, Step], other: Mapping[str, Step]) -> list[Difference]:
    found = []
    for name in dict.fromkeys((*plain, *other)):
        ours, theirs = plain.get(name), other.get(name)
        if ours is None or theirs is None:
            found.append(Difference(name, "only " + ("plain" if theirs is None else "now")))
        elif ours.status != theirs.status:
            text = f"plain: {ours.status}; now: {theirs.status}\n{theirs.text[-600:]}"
            found.append(Difference(name, text))
        elif ours.text != theirs.text:
            found.append(Difference(name, _lines(ours.text, theirs.text)))
    return found


def _lines(ours: str, theirs: str) -> str:
    lines = difflib.unified_diff(ours.splitlines(), theirs.splitlines(), lineterm="", n=0)
    changed = [line[:200] for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n".join(changed[:_SHOWN])
