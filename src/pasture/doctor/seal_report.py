"""pasture's work in a server's master, from outside: its scoreboard, and the seal's report.

The report is another process' word, and there is one only where a variable names a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pasture.proc.packages import read_text
from pasture.reasons import BREAKS, Hazard, Reason
from pasture.scoreboard.layout import Snapshot
from pasture.sealing.policy import POLICIES
from pasture.serving.settings import SETTINGS
from pasture.trust.untrusted_text import printable

_MAX_HAZARDS = 50
_MAX_THREADS = 100
_MAX_CHARACTERS = 200
_NOT_SHOWN = (Reason.NOT_STARTED, Reason.NO_REQUESTS)
"""They say nothing of this server."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A step that was not taken, or failed."""

    step: str
    sentence: str  # why
    why: Reason | None = None  # the code of that; None where the report has none that is known here


@dataclass(frozen=True, slots=True)
class SealSeen:
    """The latest seal of a master."""

    sealed: bool  # whether its heap is sealed
    policy: str  # name of the policy
    objects: int  # number of objects made immortal
    reason: str = ""  # why it is not sealed; "" if it is, or where the report could not be read
    left_out: tuple[LeftOut, ...] = ()  # steps that were not taken
    # Number of lazy imports that were left pending; None if it is not known.
    pending_imports: int | None = None
    # Whether the report could be read: else all but the first three are not known.
    has_report: bool = False
    probe: str = ""  # outcome of its probe, "" without one
    hazards: tuple[Hazard, ...] = ()  # what does not survive a fork
    # Number of requests served before the fork, how many of them failed, and the first that did,
    # with its reason.
    warm_up: tuple[int, int, str] = (0, 0, "")
    why: Reason | None = None  # the code of that
    beside: frozenset[str] = frozenset()  # names of the threads beside which it was sealed in part

    @property
    def freezes(self) -> bool:
        """Whether collections pass over what the master held."""
        policy = POLICIES.get(self.policy)
        left = {one.step for one in self.left_out}
        return policy is not None and "freeze" in policy.heap and "freeze" not in left


def read_seal(
    pid: int, board: Snapshot | None, environ: Mapping[str, str], asked: Path | None
) -> SealSeen | None:
    """The latest seal; None for a server without pasture, or that has not sealed yet."""
    if board is None or board.seal is None:
        return None
    known = board.seal
    named = asked or environ.get(SETTINGS["report_file"].variable) or None
    path = None if named is None else Path(f"/proc/{pid}/cwd") / named
    seen = SealSeen(known.sealed, known.policy, known.objects, probe=known.probe)
    return seen if path is None else _with_report(seen, read_text(str(path)))


def _with_report(seen: SealSeen, text: str) -> SealSeen:
    """The same, as it was, if the text is no report."""
    try:
        document: Any = json.loads(text)
        steps = [dict(step) for step in document["steps"]]
        left = [_left_out(step) for step in steps if step["skipped"] or step["failed"]]
        found = [s["counts"].get("pending") for s in steps if s["name"] == "resolve-imports"]
        warm_ups = [_warm_up(s) for s in steps if s["name"] == "warm-up"]
        return replace(
            seen,
            reason=printable(str(document["reason"] or "")),
            why=_code(document),
            beside=frozenset(
                printable(str(name)) for name in document.get("threads", ())[:_MAX_THREADS]
            ),
            left_out=tuple(one for one in left if one.why not in _NOT_SHOWN),
            pending_imports=int(found[0]) if found and found[0] is not None else None,
            has_report=True,
            hazards=tuple(
                Hazard(
                    printable(str(one["what"])),
                    printable(str(one["hint"])),
                    _code(one, "kind") or Reason.LIBRARY,
                    fate=printable(str(one.get("fate", BREAKS))),
                )
                for one in document.get("hazards", ())[:_MAX_HAZARDS]
            ),
            warm_up=warm_ups[0] if warm_ups else (0, 0, ""),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return seen


def _warm_up(step: Mapping[str, Any]) -> tuple[int, int, str]:
    lines = [printable(str(line)) for line in step.get("problems", ())]
    first = next((line for line in lines if line.partition(" ")[0].isupper()), "")
    counts = step["counts"]
    return int(counts.get("requests", 0)), int(counts.get("failed", 0)), first[:_MAX_CHARACTERS]


def _left_out(step: Mapping[str, Any]) -> LeftOut:
    sentence = printable(str(step["skipped"] or f"failed: {step['failed']}"))
    return LeftOut(printable(str(step["name"])), sentence, _code(step))


def _code(said: Mapping[str, Any], key: str = "why") -> Reason | None:
    """The code in a part of a report; None in one of before there were any."""
    code = said.get(key)
    return Reason(code) if code in list(Reason) else None
