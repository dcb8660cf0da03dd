"""Results of rows, kept in var/engines/, a file a row, which is written again after each start.

Owns what makes a kept start count still: the same row, the same pins, the same interpreter.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from matrix.engines.engine import VARIANTS, Engine, Figures, Variant
from matrix.engines.environments import pins_of
from matrix.environments import REPOSITORY
from matrix.store import Store

FOLDER = REPOSITORY / "var" / "engines"


@dataclass(slots=True)
class Result:
    """The starts of one row so far.

    Attributes:
        versions: of what was measured, by name.
        starts: by variant, a figure a round.
        load: load average of the machine before each start.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    starts: dict[Variant, list[Figures]] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)

    def rounds(self) -> int:
        """Number of rounds that have both variants."""
        return min(len(self.starts.get(variant, [])) for variant in VARIANTS)

    def add(self, variant: Variant, figures: Figures) -> None:
        self.starts.setdefault(variant, []).append(figures)
        self.load.append(round(os.getloadavg()[0], 1))


def key_of(engine: Engine, python: str) -> str:
    """A digest of what the figures of a row depend on, pasture's own code left out.

    Args:
        python: version of the interpreter that is measured.
    """
    source = inspect.getsource(engine.measure)
    parts = [engine.name, engine.workers, source, python, dict(pins_of(engine.packages))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def store(folder: Path = FOLDER) -> Store[Result]:
    """What is kept of each row, with its key."""
    return Store(folder, Result)
