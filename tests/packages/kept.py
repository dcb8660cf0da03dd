"""What came of each package, kept in build/packages, so that a run can be taken up again.

Invariant: a result is only given back for the same table entry and the same build.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from catalog import Package
from comparison import Comparison
from environments import BUILD
from outcomes import Difference, ModuleRun, Outcome


def result_file(package: Package, mode: str) -> Path:
    suffix = "-check" if mode.startswith("check-") else ""
    return BUILD / f"{package.name}{suffix}.json"


def keep(package: Package, mode: str, comparison: Comparison) -> None:
    document = {
        "package": package.as_dict(),
        "mode": mode,
        "plain": as_document(comparison.plain),
        "sealed": as_document(comparison.sealed),
        "found": [asdict(each) for each in comparison.found],
        "unsteady": [asdict(each) for each in comparison.unsteady],
    }
    result_file(package, mode).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def kept(package: Package, mode: str) -> Comparison | None:
    """What is kept of the package; None if that is nothing, or of another build or entry."""
    try:
        document = json.loads(result_file(package, mode).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    entry = json.loads(json.dumps(package.as_dict()))  # tuples are lists there
    if (document["package"], document["mode"]) != (entry, mode):
        return None
    return Comparison(
        as_run(document["plain"]),
        as_run(document["sealed"]),
        tuple(map(as_difference, document["found"])),
        tuple(map(as_difference, document["unsteady"])),
    )


def as_document(run: ModuleRun) -> dict[str, Any]:
    return asdict(run)


def as_run(document: Mapping[str, Any]) -> ModuleRun:
    outcomes = {test: Outcome(**outcome) for test, outcome in document["outcomes"].items()}
    return ModuleRun(**{**document, "outcomes": outcomes})


def as_difference(document: Mapping[str, Any]) -> Difference:
    return Difference(**{**document, "sealed": Outcome(**document["sealed"])})
