"""The requests of a probe, and their failures. Pure.

The reference is the parent's answers in its warm-up. A request that failed there is not sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pasture.warmup.requests import Request
from pasture.warmup.warmup import Answer

LIMIT_S = 30.0
"""Time after which no request is sent, and limit of a step."""

SERVER_ERROR = 500
"""Least status of a failure: the parent's answers were below it."""

_METHODS = ("GET", "HEAD")
_TIMES = 20
_MIN_S = 2.0
"""Least limit of a step: a first request may have to connect again."""


def limit_s(seconds: float | None) -> float:
    """Limit for a step that took this long in the parent, or None."""
    return LIMIT_S if seconds is None else min(max(_MIN_S, _TIMES * seconds), LIMIT_S)


@dataclass(frozen=True, slots=True)
class Expectation:
    """One request, the statuses that the parent gave, and the longest time that it took."""

    request: Request
    statuses: frozenset[int]
    seconds: float

    def differs(self, status: int) -> str | None:
        """The difference to the parent's statuses in words; None without one."""
        if status in self.statuses:
            return None
        return f"{self.request} {status}, not {' or '.join(map(str, sorted(self.statuses)))}"


def expectations(answers: Iterable[Answer]) -> tuple[Expectation, ...]:
    """Safe requests (GET, HEAD) that the parent has answered without a failure, each once."""
    known: dict[Request, list[Answer]] = {}
    for answer in answers:
        if answer.request.method in _METHODS:
            known.setdefault(answer.request, []).append(answer)
    return tuple(
        Expectation(
            request,
            frozenset(answer.status for answer in given if answer.status is not None),
            max(answer.seconds for answer in given),
        )
        for request, given in known.items()
        if not any(answer.failed or answer.error for answer in given)
    )
