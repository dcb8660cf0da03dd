"""Finished parts on disk, one file each, so that an interrupted lab goes on where it was.

A kept result counts only for the same question: the same part asked in the same way, by
the same version of pasture under the same interpreter. Anything else is not found.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pasture.errors import UsageError
from pasture.trust import private_files
from pasture.trust.records import decoded
from pasture_lab.engine.experiment import Part
from pasture_lab.engine.figures import Measured, to_plain

_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """A result and how long its part took."""

    measured: Measured
    seconds: float


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of results.

    Attributes:
        directory: made when the first result is kept.
    """

    directory: Path

    def find(self, experiment: str, part: Part, quick: bool) -> Kept | None:
        """The kept result of a part for exactly this question, or None."""
        try:
            found = json.loads(self._path(experiment, part, quick).read_text(encoding="utf-8"))
            if found["question"] != _question(part):
                return None
            return Kept(decoded(Measured, found["measured"]), float(found["seconds"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, experiment: str, part: Part, quick: bool, kept: Kept) -> None:
        """Write a result, whole or not at all.

        Raises:
            UsageError: it cannot be written.
        """
        path = self._path(experiment, part, quick)
        document = {
            "question": _question(part),
            "seconds": kept.seconds,
            "measured": to_plain(kept.measured),
        }
        try:
            private_files.make_folder(path.parent)
            private_files.write(path, json.dumps(document, indent=1) + "\n")
        except OSError as error:
            raise UsageError(f"cannot keep a result: {error}", hint="check --results") from None

    def _path(self, experiment: str, part: Part, quick: bool) -> Path:
        name = re.sub(r"[^\w.-]", "_", f"{experiment}.{part.name}")
        return self.directory / ("quick" if quick else "full") / f"{name}.json"


def _question(part: Part) -> Mapping[str, Any]:
    """A question as JSON returns it."""
    question: Mapping[str, Any] = json.loads(
        json.dumps(
            {
                "schema": _SCHEMA,
                "pasture": version("pasture"),
                "interpreter": f"{platform.python_implementation()} {sys.version}",
                "machine": platform.platform(),
                "key": dict(part.key),
            }
        )
    )
    return question
