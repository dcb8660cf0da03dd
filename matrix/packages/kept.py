"""The outcome of each package, kept in build/packages, so that a run can be taken up again.

A result is only given back for the same table entry and the same build.
"""

from __future__ import annotations

from typing import Any

from catalog import Package
from environments import BUILD
from outcomes import Comparison

from matrix.store import Store


def keep(package: Package, mode: str, comparison: Comparison) -> None:
    Store(BUILD, Comparison).keep(_name(package, mode), comparison, _of(package, mode))


def kept(package: Package, mode: str) -> Comparison | None:
    """What is kept of the package; None if that is nothing, or of another build or entry."""
    return Store(BUILD, Comparison).kept(_name(package, mode), _of(package, mode))


def _name(package: Package, mode: str) -> str:
    return f"{package.name}{'-check' * mode.startswith('check-')}"


def _of(package: Package, mode: str) -> Any:
    return {"package": package.as_dict(), "mode": mode}
