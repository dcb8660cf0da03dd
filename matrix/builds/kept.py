"""The outcome of each build, kept in build/builds, so that a run can be taken up again.

Invariant: a result is only given back for the same sources and the same wheel. Two things are kept
for the page alone: why there is no such interpreter, for it may be there the next time, and what
the native tests said of earlier sources, until they are run again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from trials import FOLDER, PROGRAM, REPOSITORY, TESTS, Outcome, wheel_for

from matrix.store import Store

TRIED = (
    "src/native",
    "src/pasture/interpreter.py",
    "src/pasture/sealing",
    "CMakeLists.txt",
    *TESTS,
    PROGRAM,
)


def digest(*tops: Path) -> str:
    """A hash of files, and of all in folders."""
    found = hashlib.sha256()
    for file in (file for top in tops for file in sorted([top, *top.rglob("*")])):
        if file.is_file() and file.suffix != ".pyc":
            found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()[:16]


def tree_digest() -> str:
    return digest(*(REPOSITORY / name for name in TRIED))


def wheel_digest(minor: str) -> str:
    wheel = wheel_for(minor)
    return digest(wheel) if wheel else ""


@dataclass(frozen=True)
class Kept:
    """What is known of a build, and of which sources and wheel."""

    outcome: Outcome
    of: str = ""
    of_wheel: str = ""
    of_native: str = ""


def store() -> Store[Kept]:
    return Store(FOLDER, Kept)


def read(name: str) -> Kept:
    return store().kept(f"{name}/result") or Kept(Outcome(name))


def keep(outcome: Outcome, minor: str) -> None:
    earlier, tree = read(outcome.name), tree_digest()
    if outcome.absent is not None:
        found = replace(earlier, outcome=replace(earlier.outcome, absent=outcome.absent))
    elif outcome.native is not None:
        found = Kept(outcome, tree, wheel_digest(minor), tree)
    else:  # what the native tests said last, and of which sources: a run may leave them out
        outcome = replace(outcome, native=earlier.outcome.native)
        found = Kept(outcome, tree, wheel_digest(minor), earlier.of_native)
    store().keep(f"{outcome.name}/result", found)


def kept_for_page(name: str) -> Outcome:
    """What the last run that tried this build found, of whichever sources."""
    outcome = read(name).outcome
    return replace(outcome, absent=None) if outcome.facts else outcome


def kept(name: str, minor: str) -> Outcome:
    """What is kept of the build, as far as it is of this state of the tree."""
    found, tree = read(name), tree_digest()
    return Outcome(
        name,
        facts=found.outcome.facts,
        source=found.outcome.source if found.of == tree else None,
        wheel=found.outcome.wheel if found.of_wheel == wheel_digest(minor) else None,
        native=found.outcome.native if found.of_native == tree else None,
    )
