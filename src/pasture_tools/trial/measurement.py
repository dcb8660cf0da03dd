"""Measurements of a trial, and the figures that follow from them. Pure: no process, no file.

Terms: a *run* is one server under one policy, from boot to shutdown; a *result* is all
runs of a policy. Figures of a result are medians over its runs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pasture.errors import PastureError
from pasture.sizing import Moment, workers_in, worst
from pasture_tools.proc.sampler import Sample
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.responses import Answers, Compared, Disagreement

OfRun = Callable[["Run"], float]


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """Measurements of the load generator; latencies in milliseconds."""

    requests: int
    failures: int
    seconds: float
    p50_ms: float
    p95_ms: float
    p99_ms: float

    @property
    def requests_per_s(self) -> float:
        """Answers a second, from the first request sent to the last answer."""
        return self.requests / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The end of a server: from SIGTERM to its master until no process was left."""

    seconds: float  # time until all were gone
    start_pss_bytes: int  # PSS of master and workers, idle, before the signal
    peak_pss_bytes: int  # highest seen while they ended, the start included
    samples: int  # number of readings
    # Time until no worker held memory any more. Some masters (uWSGI) look once a second whether
    # their workers have ended.
    workers_seconds: float
    by_itself: bool = True  # False if what was left had to be killed

    @property
    def peak_ratio(self) -> float:
        """Peak against start; 1.0 is a shutdown that un-shares nothing."""
        return self.peak_pss_bytes / self.start_pss_bytes


@dataclass(frozen=True, slots=True)
class Run:
    """One server under one policy, from boot to shutdown."""

    policy: str
    round: int  # number, from 0
    boot_s: float  # time from the start of the process to its first answer, without the warm-up
    series: tuple[Sample, ...]  # samples while the load ran, the first before its first request
    final: Sample  # sample after the load, with the server idle
    load: LoadFigures
    shutdown: Shutdown
    processor_s: float  # user and system time of all processes of the server, during the load
    answers: Answers  # dict of `METHOD name` to what that URL gave
    paths: tuple[str, ...] = ()  # `METHOD PATH` of the distinct requests sent, in order
    report: Mapping[str, Any] | None = None  # the server's report of its seal, None without one
    # Promises of the policy that it could not keep here, a sentence each.
    shortfalls: tuple[str, ...] = ()

    @property
    def private_bytes_median(self) -> int:
        """Private memory of the median worker."""
        return median_private_bytes(self.final)

    @property
    def total_pss_bytes(self) -> int:
        """Memory of master and workers together."""
        return self.final.total_pss_bytes

    @property
    def moments(self) -> Iterator[Moment]:
        """Memory at all moments of load and shutdown; workers un-share alike while they end."""
        for sample in (*self.series, self.final):
            yield _moment(sample)
        idle, workers = _moment(self.final), len(self.final.workers)
        grown = max(0, self.shutdown.peak_pss_bytes - self.total_pss_bytes)
        yield Moment(idle.private_bytes + grown / workers, idle.parent_bytes)

    @property
    def processor_s_per_request(self) -> float:
        """Seconds of processor time for an answer: less disturbed than throughput."""
        return self.processor_s / self.load.requests if self.load.requests else 0.0


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """All runs of one policy that ended (at least one), and where it answered differently."""

    policy: str
    runs: tuple[Run, ...]
    disagreements: tuple[Disagreement, ...] = ()

    def median(self, figure: OfRun) -> float:
        """Median of a figure over the runs."""
        return statistics.median(figure(run) for run in self.runs)

    def spread(self, figure: OfRun) -> tuple[float, float]:
        """The smallest and the largest value of a figure over the runs."""
        values = [figure(run) for run in self.runs]
        return min(values), max(values)

    @property
    def typical(self) -> Run:
        """The run with the median private memory, whose workers and series are shown."""
        ordered = sorted(self.runs, key=lambda run: run.private_bytes_median)
        return ordered[(len(ordered) - 1) // 2]

    @property
    def worst_moments(self) -> tuple[Moment, ...]:
        """The moments of all runs that decide how many workers fit."""
        return worst(moment for run in self.runs for moment in run.moments)

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """Promises of the policy that some run did not keep."""
        return tuple(dict.fromkeys(words for run in self.runs for words in run.shortfalls))

    @property
    def timeouts(self) -> int:
        """Number of requests that passed their limit of time, over all runs."""
        return sum(found.timeouts for run in self.runs for found in run.answers.values())


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that did not end as it should, and why. The figures leave it out."""

    policy: str
    round: int
    error: PastureError


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Everything a trial measured, in the order of the plan's policies."""

    plan: TrialPlan
    # Implementation, version, executable and platform of the server's interpreter.
    interpreter: Mapping[str, str]
    # Architecture, processor, number of processors, and bytes of an OS page.
    machine: Mapping[str, Any]
    policies: tuple[PolicyResult, ...]  # policies with at least one run that ended
    # How many URLs were compared by body, and how; all are compared by status.
    bodies: Compared = field(default_factory=Compared)
    notes: tuple[str, ...] = ()  # sentences about what limits the figures
    # The runs that did not end as they should; their policies were not run again.
    failures: tuple[Failure, ...] = ()
    interrupted: bool = False  # the trial was stopped before all runs had ended

    @property
    def reference(self) -> PolicyResult:
        """The result that savings are counted against: the plan's reference or the first."""
        of_plan = (p for p in self.policies if p.policy == self.plan.reference)
        return next(of_plan, self.policies[0])

    @property
    def missing(self) -> dict[str, str]:
        """Why policies of the plan have no figures, by their names."""
        failed = {f.policy: f"failed: {f.error.message}" for f in reversed(self.failures)}
        failed |= self.plan.impossible
        there = {p.policy for p in self.policies}
        return {
            name: failed.get(name, "not run") for name in self.plan.policies if name not in there
        }

    @property
    def answers_agree(self) -> bool:
        """False if any policy answered differently."""
        return not any(p.disagreements for p in self.policies)


@dataclass(frozen=True, slots=True)
class Saving:
    """Memory saved against the reference; negative where a policy costs more."""

    saved_bytes: int
    reference_bytes: int

    @property
    def fraction(self) -> float:
        """Saved part of the reference, 0 to 1."""
        return self.saved_bytes / self.reference_bytes if self.reference_bytes else 0.0


def total_pss_saving(reference: PolicyResult, other: PolicyResult) -> Saving:
    """Saving of the whole server."""
    return _saving(reference, other, lambda run: run.total_pss_bytes)


def private_saving(reference: PolicyResult, other: PolicyResult) -> Saving:
    """Saving of the median worker's private memory."""
    return _saving(reference, other, lambda run: run.private_bytes_median)


def paired_ratios(reference: PolicyResult, other: PolicyResult, figure: OfRun) -> list[float]:
    """A figure against the reference's of the same round, ascending: drifts over rounds cancel out.

    Rounds without either, or with a reference of 0, are left out.
    """
    of = {run.round: figure(run) for run in reference.runs}
    pairs = ((figure(run), of.get(run.round)) for run in other.runs)
    return sorted(value / base for value, base in pairs if base)


def workers_that_fit(budget_bytes: float, result: PolicyResult) -> int:
    """Number of workers of a policy that fit in a budget, its parent and shared pages included.

    total PSS = parent + n * private, where `parent` is the master's own memory and
    everything shared, each page once. Both terms come from the trial; the number is an
    extrapolation, good as long as workers beyond those measured behave like them.
    """
    private = result.median(lambda run: run.private_bytes_median)
    total = result.median(lambda run: run.total_pss_bytes)
    parent = total - len(result.typical.final.workers) * private
    if private <= 0:
        return len(result.typical.final.workers)
    return workers_in(budget_bytes, (Moment(private, parent),))


def _moment(sample: Sample) -> Moment:
    private = median_private_bytes(sample)
    return Moment(private, max(0, sample.total_pss_bytes - private * len(sample.workers)))


def median_private_bytes(sample: Sample) -> int:
    """Private memory of the median worker; 0 without workers."""
    return int(statistics.median([w.memory.private_bytes for w in sample.workers] or [0]))


def load_figures(latencies_ms: Sequence[float], failures: int, seconds: float) -> LoadFigures:
    """Sum up the latencies of a load."""
    ordered = sorted(latencies_ms)
    p50, p95, p99 = (percentile(ordered, share) for share in (0.50, 0.95, 0.99))
    return LoadFigures(len(ordered), failures, seconds, p50, p95, p99)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile, `share` from 0 to 1; 0 without values."""
    if not ordered:
        return 0.0
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _saving(reference: PolicyResult, other: PolicyResult, figure: OfRun) -> Saving:
    before = round(reference.median(figure))
    return Saving(before - round(other.median(figure)), before)
