"""What pasture did to a server's master, from outside: its scoreboard, and the seal's report.

The report is another process' word, and there is one only where a variable names a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pasture.proc.packages import read_text
from pasture.scoreboard.layout import Snapshot
from pasture.sealing.policy import POLICIES
from pasture.sealing.report import NOT_BEGUN
from pasture.servers.settings import SETTINGS
from pasture.trust.untrusted_text import printable

_MOST_HAZARDS = 50
_MOST_CHARACTERS = 200
_NOT_TOLD = (NOT_BEGUN, "no requests were given")
"""Begin of reasons for which steps are left out that say nothing of this server."""


@dataclass(frozen=True, slots=True)
class SealSeen:
    """The latest seal of a master.

    Attributes:
        sealed: whether its heap is sealed.
        policy: name of the policy.
        objects: number of objects made immortal.
        reason: why it is not sealed; "" if it is, or where the report could not be read.
        left_out: name and reason of each step that was not taken.
        pending_imports: number of lazy imports that were left pending; None if it is not known.
        probe: outcome of its probe, "" without one.
        has_report: whether the report could be read: else all but the first three are not known.
        hazards: what does not survive a fork, and what to do about it.
        warm_up: number of requests served before the fork, how many of them failed, and the first
            that did, with its reason.
    """

    sealed: bool
    policy: str
    objects: int
    reason: str = ""
    left_out: tuple[tuple[str, str], ...] = ()
    pending_imports: int | None = None
    has_report: bool = False
    probe: str = ""
    hazards: tuple[tuple[str, str], ...] = ()
    warm_up: tuple[int, int, str] = (0, 0, "")

    @property
    def freezes(self) -> bool:
        """Whether collections pass over what the master held."""
        return self._took("freeze")

    @property
    def gives_back(self) -> bool:
        """Whether free memory was given back before the fork."""
        return self._took("give-back")

    def _took(self, step: str) -> bool:
        policy = POLICIES.get(self.policy)
        return policy is not None and step in policy.heap and step not in dict(self.left_out)


def read_seal(
    pid: int, board: Snapshot | None, environ: Mapping[str, str], asked: Path | None
) -> SealSeen | None:
    """The latest seal; None for a server without pasture, or that has not sealed yet."""
    if board is None or board.seal is None:
        return None
    known = board.seal
    named = asked or environ.get(SETTINGS["report_file"].variable) or None
    path = None if named is None else Path(f"/proc/{pid}/cwd") / named
    report = None if path is None else _report(read_text(str(path)))
    seen = SealSeen(known.sealed, known.policy, known.objects, probe=known.probe)
    return seen if report is None else replace(seen, has_report=True, **report)


def _report(text: str) -> Mapping[str, Any] | None:
    """The fields of a `SealSeen` that a report has; None if the text is no report."""
    try:
        document: Any = json.loads(text)
        steps = [dict(step) for step in document["steps"]]
        left = tuple((str(s["name"]), _shown(s)) for s in steps if s["skipped"] or s["failed"])
        found = [s["counts"].get("pending") for s in steps if s["name"] == "resolve-imports"]
        warm_ups = [_warm_up(s) for s in steps if s["name"] == "warm-up"]
        return {
            "reason": printable(str(document["reason"] or "")),
            "left_out": _worth_telling(left),
            "pending_imports": int(found[0]) if found and found[0] is not None else None,
            "hazards": tuple(
                (printable(str(one["what"])), printable(str(one["hint"])))
                for one in document.get("hazards", ())[:_MOST_HAZARDS]
            ),
            "warm_up": warm_ups[0] if warm_ups else (0, 0, ""),
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _warm_up(step: Mapping[str, Any]) -> tuple[int, int, str]:
    lines = [printable(str(line)) for line in step.get("problems", ())]
    first = next((line for line in lines if line.partition(" ")[0].isupper()), "")
    counts = step["counts"]
    return int(counts.get("requests", 0)), int(counts.get("failed", 0)), first[:_MOST_CHARACTERS]


def _shown(step: Mapping[str, Any]) -> str:
    return printable(str(step["skipped"] or f"failed: {step['failed']}"))


def _worth_telling(steps: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((printable(name), why) for name, why in steps if not why.startswith(_NOT_TOLD))
