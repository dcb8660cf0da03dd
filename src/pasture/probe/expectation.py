"""The answers that a child of the sealed process should give, and whether it did. Pure.

The reference is what the parent answered in its warm-up. Only what is worse there counts: a page
that failed in the warm-up is not sent, and a page that answers now is no difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pasture.warmup.requests import SAFE_METHODS, Request
from pasture.warmup.warmup import Answer

STATUSES_THAT_VARY = (304, 429)
"""Not modified, and too many requests: a later request may well be answered so."""

_CLIENT_ERROR = 400
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Expectation:
    """One request, and what is known of its answer."""

    request: Request
    status: int | None = None  # that the parent answered with; None if it is not known
    # Each that the parent's answers had; none if a body is not compared.
    skeletons: frozenset[str] = frozenset()
    seconds: float | None = None  # longest time that the parent took; None if it is not known
    # Whether the parent answered more than once, with one skeleton. Of a page that was seen once it
    # is not known whether it follows live data.
    is_steady: bool = False
    # Whether the parent has answered it, or would have. Else it is known of no answer whether it is
    # right: only a process that hangs, or ends, is worse.
    has_reference: bool = True

    def differs(self, status: int, skeletons: Iterable[str]) -> str | None:
        """The difference of a child's answers, all of this status, in words; None without one.

        Where the skeletons of the answers are several, the page has no one structure.
        """
        reference = 200 if self.status is None else self.status
        if status >= _SERVER_ERROR and not self.has_reference:
            return f"answers {status}"
        if status >= _SERVER_ERROR > reference:
            return f"answers {status}" + ("" if self.status is None else f" instead of {reference}")
        if self.status is None or status in STATUSES_THAT_VARY:
            return None
        if status < _CLIENT_ERROR <= self.status:
            return None  # as a page that its application's start has made
        if status != self.status:
            return f"answers {status} instead of {self.status}"
        found = set(skeletons)
        if len(found) != 1 or not self.skeletons or found <= self.skeletons:
            return None
        return f"the body is {found.pop()} instead of {min(self.skeletons)}"

    def is_sure(self, status: int, skeletons: Iterable[str], *, has_raised: bool = False) -> bool:
        """Whether answers that differ do so for the fork's sake.

        Without skeletons the application was not started for the warm-up. There its start may
        change a status, too.
        """
        if not self.has_reference or has_raised:
            return self.has_reference
        if status == self.status:
            return self.is_steady
        return status >= _SERVER_ERROR or any(skeletons)


def expectations(requests: Iterable[Request], answers: Iterable[Answer]) -> tuple[Expectation, ...]:
    """Requests to send, each once, and their expected answers.

    Requests that the parent did not answer well, or not in one way, are left out; all are kept
    where it answered none at all.
    """
    known: dict[Request, list[Answer]] = {}
    for answer in answers:
        known.setdefault(answer.request, []).append(answer)
    safe = dict.fromkeys(r for r in requests if r.method in SAFE_METHODS)
    if not known:
        return tuple(Expectation(request) for request in safe)
    return tuple(_of(request, known[request]) for request in safe if _is_good(known.get(request)))


def _is_good(answers: list[Answer] | None) -> bool:
    if not answers or any(answer.failed or answer.error for answer in answers):
        return False
    return len({answer.status for answer in answers}) == 1


def _of(request: Request, answers: list[Answer]) -> Expectation:
    skeletons = frozenset(answer.skeleton for answer in answers if answer.skeleton is not None)
    return Expectation(
        request,
        answers[0].status,
        skeletons,
        max(answer.seconds for answer in answers),
        is_steady=len(answers) > 1 and len(skeletons) == 1,
    )
