"""The plots of the HTML page of a trial, and the colour of each policy."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from pasture.proc.smaps import Memory
from pasture_tools.display.charts import Bar, Bars, Line, Lines
from pasture_tools.display.units import BYTES_PER_MB
from pasture_tools.trial.figures import (
    LATENCIES,
    PEAK,
    PEAK_PSS,
    PSS_BEFORE,
    REQUESTS,
    SHUTDOWN,
    TOTAL,
    Figure,
)
from pasture_tools.trial.measurement import PolicyResult, TrialResult

# Distinguishable with any colour vision, on white and on black.
COLORS = {
    "plain": "#b0693a",
    "stock": "#8b8f98",
    "freeze": "#4c7fb8",
    "warm-freeze": "#7b6bb0",
    "seal": "#2f8f5b",
}
"""One colour for each policy."""
_OTHER_COLORS = ("#3b9aa5", "#a07d2c", "#94518f")


def color_of(policy: str, result: TrialResult) -> str:
    """The colour of a policy; one that is not known gets one by its place in the plan."""
    place = result.plan.policies.index(policy)
    return COLORS.get(policy, _OTHER_COLORS[place % len(_OTHER_COLORS)])


def over_requests(result: TrialResult, figure: Callable[[Memory], int]) -> Lines:
    """Private memory by requests: a line for the median worker, a band over all workers."""
    lines = []
    for policy in result.policies:
        samples = [s for s in policy.typical.series if s.workers]
        each = [[figure(w.memory) / BYTES_PER_MB for w in s.workers] for s in samples]
        lines.append(
            Line(
                policy.policy,
                color_of(policy.policy, result),
                [s.requests for s in samples],
                [statistics.median(one) for one in each],
                [min(one) for one in each],
                [max(one) for one in each],
            )
        )
    return Lines(lines, "requests served", "MB a worker")


def total_pss(result: TrialResult) -> Bars:
    """Total PSS, split into the workers' private memory and the memory that is there once."""

    def bar(policy: PolicyResult) -> Bar:
        own = sum(w.memory.private_bytes for w in policy.typical.final.workers)
        once = max(0.0, policy.median(TOTAL) - own)
        color = color_of(policy.policy, result)
        return Bar(policy.policy, TOTAL.shown(policy), color, own, once)

    return Bars([("", list(map(bar, result.policies)))])


def latency(result: TrialResult) -> Bars:
    """p50, p95 and p99 of the answers."""
    return Bars([(f"{name}, ms", _each(result, one)) for name, one in LATENCIES.items()])


def throughput(result: TrialResult) -> Bars:
    """Requests a second."""
    return Bars([("", _each(result, REQUESTS))])


def shutdown(result: TrialResult) -> Bars:
    """Total PSS before and at the worst moment of the shutdown."""

    def bar(policy: PolicyResult) -> Bar:
        before, peak = policy.median(PSS_BEFORE), policy.median(PEAK_PSS)
        text = f"{PEAK.shown(policy)} in {SHUTDOWN.shown(policy)}"
        color = color_of(policy.policy, result)
        return Bar(policy.policy, text, color, max(0.0, peak - before), before)

    return Bars([("", list(map(bar, result.policies)))])


def _each(result: TrialResult, figure: Figure) -> list[Bar]:
    return [
        Bar(p.policy, figure.shown(p), color_of(p.policy, result), p.median(figure))
        for p in result.policies
    ]
