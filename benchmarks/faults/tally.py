"""What was counted of an engine in each variant, and what of it is a complaint."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from matrix.engines.engine import VARIANTS, Variant
from matrix.environments import REPOSITORY
from matrix.store import Store

KILLING = (
    "kill a process",
    "kill all below it",
    "kill the main process",
    "fill the disk",
    "no descriptors in the main process",
)
"""Faults with a SIGKILL in them."""

_BY_CHANCE = 3
"""Jobs that a killed process may have in hand, or have taken and not started."""

FOLDER = REPOSITORY / "var" / "soak-engines"


@dataclass(slots=True)
class Tally:
    """One variant.

    Attributes:
        minutes, every_s, seed: of the run.
        faults: how often each was done; `left_out` those that the machine does not allow.
        put: jobs that the engine took, or requests.
        done: of these.
        refused: that it did not take.
        lost, twice: jobs that were never done, and more than once, by the latest fault before.
        left: processes that outlived their engine, a line each.
        ended: how often the engine ended though no fault was to end it, by fault.
        not_back: how often it did not work on in time, by fault.
        examples: of what was lost, and why where that is known.
    """

    minutes: float
    every_s: float
    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    put: int = 0
    done: int = 0
    refused: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    twice: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)
    not_back: Counter[str] = field(default_factory=Counter)
    slowest_s: dict[str, float] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)


Tallies = dict[Variant, Tally]


def _tally(document: dict[str, Any]) -> Tally:
    tally = Tally(document["minutes"], document["every_s"], document["seed"])
    for one in fields(Tally):
        found = document[one.name]
        setattr(tally, one.name, Counter(found) if one.default_factory is Counter else found)
    return tally


def store(folder: Path = FOLDER) -> Store[Tallies]:
    """A result an engine: a tally of each variant."""
    return Store(folder, decode=lambda kept: {v: _tally(kept[v]) for v in VARIANTS if v in kept})


def complaints(theirs: Tally, sealed: Tally) -> list[str]:
    """What the sealed engine did that it does not do by itself, a line each.

    Which job a killed process has in hand is chance: there, only many more count.
    """
    found = []
    for what in ("lost", "twice", "ended", "not_back"):
        ours, others = getattr(sealed, what), getattr(theirs, what)
        for fault, count in ours.items():
            allowed = _BY_CHANCE * sealed.faults[fault] if fault in KILLING else 0
            if count > max(2 * others[fault], allowed):
                what_then = f"{what.replace('_', ' ')} after {fault}"
                found.append(f"{what_then}: {count}, without pasture {others[fault]}")
    if len(sealed.left) > len(theirs.left):
        found += [f"left behind: {line}" for line in sealed.left]
    return found


COLUMNS = ("engine", "faults", "put", "refused", "lost", "twice", "ended", "not back", "left")


def row_of(name: str, theirs: Tally, sealed: Tally) -> list[str]:
    """Cells of the table: without pasture / sealed."""

    def pair(of: Any) -> str:
        return f"{of(theirs):,} / {of(sealed):,}"

    return [
        name,
        pair(lambda t: t.faults.total()),
        pair(lambda t: t.put),
        pair(lambda t: t.refused),
        pair(lambda t: t.lost.total()),
        pair(lambda t: t.twice.total()),
        pair(lambda t: t.ended.total()),
        pair(lambda t: t.not_back.total()),
        pair(lambda t: len(t.left)),
    ]
