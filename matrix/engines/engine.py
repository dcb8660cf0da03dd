"""What a row of the table is: an engine, its two variants, and the figures of one start.

Owns the shapes alone. A row module owns how its engine is started, loaded and ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil

Variant = Literal["theirs", "sealed"]
VARIANTS: tuple[Variant, ...] = ("theirs", "sealed")


@dataclass(frozen=True, slots=True)
class Figures:
    """What one start of an engine came to, with all workers at work.

    Attributes:
        private_bytes: of a worker, the mean (USS).
        pss_bytes: of all processes of the engine that hold Python code, the parent among them.
        start_s: from the start of the command until all workers serve.
        others: further figures by their name with its unit, as "items a second". Both variants
            give the same names.
    """

    private_bytes: float
    pss_bytes: float
    start_s: float
    others: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row may work, and with what.

    Attributes:
        python: the interpreter of the engine's environment, with pasture in it.
        folder: empty; removed after the start that it was made for.
    """

    python: Path
    folder: Path

    def script(self, name: str) -> str:
        """Path of a command that the environment's packages have installed."""
        return str(self.python.with_name(name))


@dataclass(frozen=True, slots=True)
class Engine:
    """A row.

    Attributes:
        name: of the row, its module and the file of its results.
        title: in the table.
        rank: rows are in this order; those of one rank by name.
        theirs: how the engine is used without pasture, in one line.
        way_in: the one line that seals it, as a user writes it.
        workers: number of them that are measured.
        measure: starts the engine in one variant, brings all workers to work, reads the figures and
            ends it. Raises a `PastureError` or `click.ClickException` where that fails.
        packages: table of packages.toml that its environment is made from; "" is the
            environment of the command itself.
        private_goal, pss_goal, start_goal: largest good ratio to theirs; None where there is none.
        guide: page under docs/ that says how it is used, with its anchor.
        note: what a reader must know of the figures, in whole sentences.
    """

    name: str
    title: str
    rank: int
    theirs: str
    way_in: str
    workers: int
    measure: Callable[[Variant, Place], Figures]
    packages: str = ""
    private_goal: float | None = None
    pss_goal: float | None = None
    start_goal: float | None = None
    guide: str = ""
    note: str = ""


def memory_of(workers: Iterable[int], others: Iterable[int] = ()) -> tuple[float, float]:
    """Mean private bytes of the workers, and the PSS in bytes of workers and others.

    Args:
        workers, others: pids; of processes of this user.

    Raises:
        psutil.NoSuchProcess: one has ended.
        ValueError: there is no worker.
    """
    full = [psutil.Process(pid).memory_full_info() for pid in workers]
    if not full:
        raise ValueError("there is no worker to measure")
    rest = [psutil.Process(pid).memory_full_info() for pid in others]
    private = sum(one.uss for one in full) / len(full)
    return private, sum(one.pss for one in (*full, *rest))
