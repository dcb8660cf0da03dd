"""pasture's work in a server's master, read from outside: the scoreboard and the seal's report.

Another process wrote both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pasture.reasons import BREAKS, Hazard, Reason
from pasture.scoreboard.layout import Snapshot
from pasture.sealing.policy import POLICIES
from pasture.sealing.report import read_report
from pasture.trust.untrusted_text import printable

_MAX_HAZARDS = 50
_MAX_THREADS = 100
_MAX_CHARACTERS = 200
_NOT_SHOWN = (Reason.NOT_STARTED, Reason.NO_REQUESTS)
"""Reasons that do not depend on the server."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A step that was left out or failed."""

    step: str
    sentence: str  # why
    why: Reason | None = None  # the reason's code; None for an unknown one


@dataclass(frozen=True, slots=True)
class SealSeen:
    """The latest seal of a master."""

    sealed: bool  # whether the heap is sealed
    policy: str  # name of the policy
    objects: int  # number of objects made immortal
    reason: str = ""  # why it is not sealed; "" if it is, or if the report cannot be read
    left_out: tuple[LeftOut, ...] = ()  # steps that were not taken
    # Number of lazy imports that were left pending; None if it is not known.
    pending_imports: int | None = None
    # Whether the report could be read: else only the first three and the probe are known.
    has_report: bool = False
    probe: str = ""  # outcome of its probe, "" without one
    hazards: tuple[Hazard, ...] = ()  # hazards that the seal found
    unnamed: int = 0  # number of hazards, if the report is missing
    # Number of requests served before the fork, how many of them failed, and the first that did,
    # with its reason.
    warm_up: tuple[int, int, str] = (0, 0, "")
    why: Reason | None = None  # the code of `reason`
    beside: frozenset[str] = frozenset()  # threads that ran and prevented a full seal
    dead: str = ""  # a sentence on sealed and unused memory, if that is much

    @property
    def breaking(self) -> tuple[Hazard, ...]:
        """The hazards that do not survive a fork."""
        return tuple(hazard for hazard in self.hazards if not hazard.survives)

    @property
    def freezes(self) -> bool:
        """Whether collections skip the master's objects."""
        policy = POLICIES.get(self.policy)
        left = {one.step for one in self.left_out}
        return policy is not None and "freeze" in policy.heap and "freeze" not in left


def read_seal(pid: int, board: Snapshot | None) -> SealSeen | None:
    """The latest seal of a process; None without pasture, or before the first."""
    return understand(read_report(pid), board)


def understand(report: Any, board: Snapshot | None) -> SealSeen | None:
    """The seal, from the plain values of its report and from the scoreboard."""
    known = None if board is None else board.seal
    seen = _reported(report)
    if known is None:
        return seen
    if seen is not None:
        return replace(seen, probe=known.probe)
    return SealSeen(
        known.sealed, known.policy, known.objects, probe=known.probe, unnamed=known.hazards
    )


def _reported(document: Any) -> SealSeen | None:
    """The seal from a report; None if the document is not a report."""
    try:
        steps = [dict(step) for step in document["steps"]]
        left = [_left_out(step) for step in steps if step["skipped"] or step["failed"]]
        found = [s["counts"].get("pending") for s in steps if s["name"] == "resolve-imports"]
        warm_ups = [_warm_up(s) for s in steps if s["name"] == "warm-up"]
        dead = [one for s in steps if "dead_bytes" in s["counts"] for one in s["problems"]]
        return SealSeen(
            bool(document["sealed"]),
            printable(str(document["policy"])),
            int(document["objects"]),
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
            dead=printable(str(dead[0]))[: 2 * _MAX_CHARACTERS] if dead else "",
        )
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None


def _warm_up(step: Mapping[str, Any]) -> tuple[int, int, str]:
    lines = [printable(str(line)) for line in step.get("problems", ())]
    first = next((line for line in lines if line.partition(" ")[0].isupper()), "")
    counts = step["counts"]
    return int(counts.get("requests", 0)), int(counts.get("failed", 0)), first[:_MAX_CHARACTERS]


def _left_out(step: Mapping[str, Any]) -> LeftOut:
    sentence = printable(str(step["skipped"] or f"failed: {step['failed']}"))
    return LeftOut(printable(str(step["name"])), sentence, _code(step))


def _code(said: Mapping[str, Any], key: str = "why") -> Reason | None:
    """The code in a part of a report; None if it is missing or unknown."""
    code = said.get(key)
    return Reason(code) if code in list(Reason) else None
