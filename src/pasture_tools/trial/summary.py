"""The sentences of a trial: the saving, how many workers fit, what limits the figures.

The table and the HTML page show the same plain text.
"""

from __future__ import annotations

from pasture.sealing.seen import understand
from pasture_tools.display.units import count, megabytes, percent
from pasture_tools.trial.figures import PRIVATE, PROCESSOR, TOTAL
from pasture_tools.trial.measurement import (
    PolicyResult,
    TrialResult,
    total_pss_saving,
    workers_that_fit,
)

_MIN_SAVING = 0.01  # below is noise
_ONE_ROUND = (
    "One round: requests a second, latencies and times of two runs may differ by a tenth or more; "
    "--rounds 3 shows their spread."
)


def best(result: TrialResult) -> PolicyResult | None:
    """The policy that saves most against the reference; None if each saving is noise."""
    saving = [
        p for p in result.policies if total_pss_saving(result.reference, p).fraction >= _MIN_SAVING
    ]
    return min(saving, key=lambda p: p.median(TOTAL), default=None)


def saved(reference: PolicyResult, policy: PolicyResult) -> tuple[str, str]:
    """Memory that a policy saves against the reference, and the share; None for the reference."""
    if policy is reference:
        return "", ""
    saving = total_pss_saving(reference, policy)
    return megabytes(saving.saved_bytes), percent(saving.fraction)


def headline(result: TrialResult) -> str:
    """The saving of the best policy against the reference."""
    winner, reference = best(result), result.reference
    total = TOTAL.shown(reference)
    if len(result.policies) == 1:
        return f"{reference.policy} takes {total} with {count(result.plan.workers, 'worker')}"
    if winner is None:
        return f"Nothing saved of the {total} that {reference.policy} takes"
    words, share = saved(reference, winner)
    return f"{winner.policy} saves {words} of {total} ({share})"


def capacity(result: TrialResult) -> str:
    """Number of workers of each policy that fit in the reference's memory."""
    reference = result.reference
    budget = reference.median(TOTAL)
    others = [p for p in result.policies if p is not reference]
    workers = len(reference.typical.final.workers)
    if not others:
        took = count(workers, "worker")
        return f"{took} under {reference.policy} took {megabytes(budget)}."
    first, *more = (workers_that_fit(budget, p) for p in others)
    words = [count(first, "worker"), *(f"{number:,}" for number in more)]
    fits = [f"{word} under {p.policy}" for word, p in zip(words, others, strict=True)]
    took = count(workers, f"{reference.policy} worker")
    listed = ", or ".join(filter(None, [", ".join(fits[:-1]), fits[-1]]))
    return f"The memory of {took} ({megabytes(budget)}) holds {listed}."


def processor(result: TrialResult) -> str | None:
    """Processor time of an answer under each policy, None with a single policy."""
    if len(result.policies) == 1:
        return None
    costs = ", ".join(f"{p.policy} {PROCESSOR.shown(p)} ms" for p in result.policies)
    return f"Processor time a request: {costs}."


def spread(result: TrialResult) -> str | None:
    """Distance between the rounds, None with a single policy."""
    if result.plan.rounds == 1:
        return _ONE_ROUND if len(result.policies) > 1 else None
    ranges = []
    for policy in result.policies:
        low, high = policy.spread(PRIVATE)
        ranges.append(f"{policy.policy} {megabytes(low)} to {megabytes(high)}")
    return (
        f"Medians of {result.plan.rounds} rounds; private memory of a worker ranged: "
        f"{', '.join(ranges)}."
    )


def answers(result: TrialResult) -> str | None:
    """The way in which answers were compared, None with a single policy."""
    if len(result.policies) == 1:
        return None
    outcome = "the same" if result.answers_agree else "different, see the notes"
    return f"Answers {outcome}; every status compared; {result.bodies}."


def remarks(result: TrialResult) -> list[str]:
    """Everything that limits the figures, the different answers first."""
    differing = [
        f"{p.policy} answers differently: {d}" for p in result.policies for d in p.disagreements
    ]
    return [*differing, *result.notes, *_unfinished(result)]


def beside_figures(result: TrialResult) -> list[tuple[str, str]]:
    """Pairs of a policy and words for its row: missing figures, a shortfall, a hazard."""
    found: list[tuple[str, str]] = []
    for policy in result.policies:
        seal = understand(policy.typical.report, None)
        hazards = () if seal is None else seal.breaking
        found += ((policy.policy, shortfall) for shortfall in policy.shortfalls)
        found += ((policy.policy, f"hazard: {hazard}") for hazard in hazards)
    return [*found, *result.missing.items()]


def _unfinished(result: TrialResult) -> list[str]:
    partly = [f for f in result.failures if f.policy not in result.missing]
    words = [f"{f.policy}: a later run failed: {f.error.message}" for f in partly]
    if result.interrupted:
        ended = sum(len(p.runs) for p in result.policies)
        all_runs = len(result.plan.possible) * result.plan.rounds
        words.append(f"interrupted: {ended} of {count(all_runs, 'run')} ended")
    return words
