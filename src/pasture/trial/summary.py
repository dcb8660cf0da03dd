"""The sentences of a trial: what was saved, how many workers fit, what to know.

Plain text, used by the table and by the HTML page alike.
"""

from __future__ import annotations

from pasture.display.units import count, megabytes, percent
from pasture.trial.measurement import (
    PolicyResult,
    TrialResult,
    total_pss_saving,
    workers_that_fit,
)

_LEAST_SAVING = 0.01  # below is noise


def best(result: TrialResult) -> PolicyResult | None:
    """The policy that saves most against the reference; None if none saves a real part."""
    saving = [
        p
        for p in result.policies
        if total_pss_saving(result.reference, p).fraction >= _LEAST_SAVING
    ]
    return min(saving, key=lambda p: p.median(lambda run: run.total_pss_bytes), default=None)


def headline(result: TrialResult) -> str:
    """What the best policy saves against the reference."""
    winner, reference = best(result), result.reference
    total = megabytes(reference.median(lambda run: run.total_pss_bytes))
    if len(result.policies) == 1:
        return f"{reference.policy} takes {total} with {count(result.plan.workers, 'worker')}"
    if winner is None:
        return f"Nothing saved of the {total} that {reference.policy} takes"
    saving = total_pss_saving(reference, winner)
    saved, share = megabytes(saving.saved_bytes), percent(saving.fraction)
    return f"{winner.policy} saves {saved} of {total} ({share})"


def capacity(result: TrialResult) -> str:
    """How many workers of each policy fit in the memory that the reference took."""
    reference = result.reference
    budget = reference.median(lambda run: run.total_pss_bytes)
    fits = [
        f"{workers_that_fit(budget, p)} under {p.policy}"
        for p in result.policies
        if p is not reference
    ]
    took = count(len(reference.typical.final.workers), "worker")
    if not fits:
        return f"{took} under {reference.policy} took {megabytes(budget)}."
    return (
        f"In the {megabytes(budget)} that {took} took under {reference.policy} fit {_listed(fits)}."
    )


def spread(result: TrialResult) -> str | None:
    """How far the rounds lie apart, None with a single one."""
    if result.plan.rounds == 1:
        return None
    ranges = []
    for policy in result.policies:
        low, high = policy.spread(lambda run: run.private_bytes_median)
        ranges.append(f"{policy.policy} {megabytes(low)} to {megabytes(high)}")
    return (
        f"Medians of {result.plan.rounds} rounds; private memory of a worker ranged: "
        f"{', '.join(ranges)}."
    )


def remarks(result: TrialResult) -> list[str]:
    """Everything that limits the figures, the different answers first."""
    differing = [
        f"{p.policy} answers differently: {d}" for p in result.policies for d in p.disagreements
    ]
    return differing + list(result.notes)


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
