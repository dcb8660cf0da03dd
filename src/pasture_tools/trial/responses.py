"""Do two policies answer the same? Pure comparison of what a load recorded.

The rule, for each URL that both runs requested:
    status  a status that the reference never gave is a difference
    body    compared where it is deterministic: the reference gave one and the same body at
            least twice, and never another; else by its structure (`trial.client.skeleton`),
            where that is deterministic in the same way

A request that timed out has no answer to compare: it is a failure, never a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

NO_ANSWER = 0
_REDIRECT, _SERVER_ERROR = 300, 500


@dataclass(frozen=True, slots=True)
class UrlAnswers:
    """Answers of one URL: dict of status to count, of body digest to count, of skeleton to count.

    For some bodies only the skeleton is known. Status 0 is a request without an answer (refused,
    reset, no HTTP); `error` is then the client's message for the last one. Requests that timed out
    are counted in `timeouts` alone.
    """

    statuses: Mapping[int, int]
    bodies: Mapping[str, int]
    error: str | None = None
    timeouts: int = 0
    skeletons: Mapping[str, int] = field(default_factory=dict)

    @property
    def only_body(self) -> str | None:
        """The digest of a deterministic body, else None."""
        return _only(self.bodies)

    @property
    def only_skeleton(self) -> str | None:
        """The skeleton of a body whose structure alone is deterministic, else None."""
        return None if self.only_body is not None else _only(self.skeletons)

    @property
    def failures(self) -> int:
        """Number of requests without an answer in time, or with a 5xx."""
        return self.timeouts + sum(n for s, n in self.statuses.items() if is_failure(s))


# Keyed by `METHOD PATH`.
Answers = Mapping[str, UrlAnswers]


@dataclass(frozen=True, slots=True)
class Compared:
    """Number of URLs whose bodies are compared with the reference's, by way of comparing."""

    whole: int = 0  # byte for byte
    by_structure: int = 0  # by their skeletons, since each body has other values
    not_at_all: int = 0  # those that the reference answers differently each time, or answered once

    def __str__(self) -> str:
        return (
            f"bodies: {self.whole} compared byte for byte, {self.by_structure} by structure, "
            f"{self.not_at_all} not"
        )


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One URL that answered differently: `what` is "status" or "body"."""

    url: str
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.url}: {self.what} {self.found} instead of {self.expected}"


def is_failure(status: int) -> bool:
    """Whether a status stands for a missing answer or for a server's error."""
    return status == NO_ANSWER or status >= _SERVER_ERROR


def merge(runs: Iterable[Answers]) -> dict[str, UrlAnswers]:
    """Add up the answers of several runs of one policy."""
    statuses: dict[str, Counter[int]] = {}
    bodies: dict[str, Counter[str]] = {}
    skeletons: dict[str, Counter[str]] = {}
    errors: dict[str, str] = {}
    timeouts: Counter[str] = Counter()
    for run in runs:
        for url, answers in run.items():
            statuses.setdefault(url, Counter()).update(answers.statuses)
            bodies.setdefault(url, Counter()).update(answers.bodies)
            skeletons.setdefault(url, Counter()).update(answers.skeletons)
            timeouts[url] += answers.timeouts
            if answers.error:
                errors[url] = answers.error
    return {
        url: UrlAnswers(statuses[url], bodies[url], errors.get(url), timeouts[url], skeletons[url])
        for url in statuses
    }


def disagreements(reference: Answers, other: Answers) -> tuple[Disagreement, ...]:
    """The URLs that `other` answered as the reference did not."""
    found: list[Disagreement] = []
    for url in other:
        if url in reference:
            found.extend(_compare(url, reference[url], other[url]))
    return tuple(found)


def compared_bodies(reference: Answers) -> Compared:
    """Number of URLs whose bodies the reference makes comparable, by way of comparing."""
    whole = sum(answers.only_body is not None for answers in reference.values())
    by_structure = sum(answers.only_skeleton is not None for answers in reference.values())
    return Compared(whole, by_structure, len(reference) - whole - by_structure)


def always_failing(answers: Answers) -> dict[str, UrlAnswers]:
    """The URLs that never gave an answer other than a failure."""
    return {url: found for url, found in answers.items() if all(map(is_failure, found.statuses))}


def without_page(answers: Answers) -> dict[str, UrlAnswers]:
    """The URLs that gave nothing but redirects and refusals, a 3xx or 4xx."""
    return {
        url: found
        for url, found in answers.items()
        if found.statuses and all(_REDIRECT <= status < _SERVER_ERROR for status in found.statuses)
    }


def failing(answers: Answers) -> tuple[str, ...]:
    """The URLs with requests that failed without timing out, as in `GET /: 503`."""
    found = {url: [s for s in a.statuses if is_failure(s)] for url, a in answers.items()}
    return tuple(f"{url}: {_listed(sorted(some))}" for url, some in found.items() if some)


def timed_out(answers: Answers) -> dict[str, int]:
    """The URLs with requests that timed out, and their number."""
    return {url: found.timeouts for url, found in answers.items() if found.timeouts}


def _compare(url: str, reference: UrlAnswers, other: UrlAnswers) -> Iterable[Disagreement]:
    if not reference.statuses:  # every request timed out: there is nothing to compare
        return
    new = sorted(set(other.statuses) - set(reference.statuses))
    if new:
        expected, found = (_listed(s) for s in (sorted(reference.statuses), new))
        found = f"{found} ({other.error})" if other.error else found
        yield Disagreement(url, "status", expected, found)
        return
    body = reference.only_body
    strange = [digest for digest in other.bodies if digest != body]
    if body is not None and strange:
        yield Disagreement(url, "body", body[:12], strange[0][:12])
    structure = reference.only_skeleton
    others = [skeleton for skeleton in other.skeletons if skeleton != structure]
    if structure is not None and others:
        yield Disagreement(url, "body", structure, others[0])


def _only(counts: Mapping[str, int]) -> str | None:
    """The only value, if it was seen at least twice; else None."""
    if len(counts) != 1:
        return None
    value, count = next(iter(counts.items()))
    return value if count > 1 else None


def _listed(statuses: list[int]) -> str:
    return ", ".join("no answer" if s == NO_ANSWER else str(s) for s in statuses)
