"""What came of each build, kept in build/builds, so that a run can be taken up again.

Invariant: a result is only given back for the same sources and the same wheel. Two things are kept
for the page alone: why there is no such interpreter, for it may be there the next time, and what
the native tests said of earlier sources, until they are run again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trials import FOLDER, PROGRAM, REPOSITORY, TESTS, Installation, Memory, Outcome, wheel_for

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


def result_file(name: str) -> Path:
    return FOLDER / name / "result.json"


def absence_file(name: str) -> Path:
    return FOLDER / name / "absent"


def keep(outcome: Outcome, minor: str) -> None:
    if outcome.absent is not None:
        absence_file(outcome.name).write_text(outcome.absent)
        return
    absence_file(outcome.name).unlink(missing_ok=True)
    of = {"of": tree_digest(), "of_wheel": wheel_digest(minor)}
    document = of | asdict(outcome) | native_part(outcome)
    result_file(outcome.name).write_text(json.dumps(document, indent=1) + "\n")


def native_part(outcome: Outcome) -> dict[str, Any]:
    """What the native tests said last, and of which sources: a run may leave them out."""
    if outcome.native is not None:
        return {"native": outcome.native, "of_native": tree_digest()}
    earlier = read_result(outcome.name)
    return {name: earlier.get(name) for name in ("native", "of_native")}


def read_result(name: str) -> dict[str, Any]:
    """The document that is kept of a build; empty if there is none."""
    try:
        document = json.loads(result_file(name).read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def kept_for_page(name: str, minor: str) -> Outcome:
    """What the last run that tried this build found, of whichever sources."""
    outcome = kept(name, minor, stale=True)
    if not outcome.facts and absence_file(name).exists():
        return Outcome(name, absent=absence_file(name).read_text())
    return outcome


def kept(name: str, minor: str, stale: bool = False) -> Outcome:
    """What is kept of the build, as far as it is of this state of the tree (or if `stale`)."""
    document = read_result(name)
    if not document:
        return Outcome(name)
    same = stale or document["of"] == tree_digest()
    same_wheel = stale or document["of_wheel"] == wheel_digest(minor)
    same_native = stale or document["of_native"] == tree_digest()
    return Outcome(
        name,
        facts=document["facts"],
        source=as_installation(document["source"]) if same else None,
        wheel=as_installation(document["wheel"]) if same_wheel else None,
        native=tuple(document["native"]) if same_native and document["native"] else None,
    )


def as_installation(document: dict[str, Any] | None) -> Installation | None:
    if document is None:
        return None
    memory = document["memory"]
    return Installation(document["failure"], Memory(**memory) if memory else None)
