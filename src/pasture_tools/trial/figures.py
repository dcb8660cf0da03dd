"""The figures of a trial: each is declared here, with its key, its words, and its column.

Document, table, page and plots read these. `measurement` has what they are computed from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pasture_tools.display.units import megabytes, milliseconds, seconds
from pasture_tools.trial.measurement import PolicyResult, Run

_BYTES = 0
_ALL = None


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a run. The figure of a policy is the median over its runs."""

    key: str  # in the document
    of: Callable[[Run], float]  # computes the figure of a run
    words: Callable[[float], str]  # formats the figure for a person
    decimals: int | None = 4  # in the document; None keeps all
    heading: str = ""  # the heading of its column in the page

    def __call__(self, run: Run) -> float:
        return self.of(run)

    def shown(self, policy: PolicyResult) -> str:
        """A policy's figure in words."""
        return self.words(policy.median(self))

    def rounded(self, policy: PolicyResult) -> float:
        """A policy's figure, rounded to the precision that was measured."""
        value = policy.median(self)
        if self.decimals is _ALL:
            return value
        return round(value, self.decimals or None)


PRIVATE = Figure(
    "private_bytes_median", lambda run: run.private_bytes_median, megabytes, _BYTES,
    "private a worker",
)  # fmt: skip
TOTAL = Figure("total_pss_bytes", lambda run: run.total_pss_bytes, megabytes, _BYTES, "total PSS")
REQUESTS = Figure(
    "requests_per_s", lambda run: run.load.requests_per_s, "{:,.0f}".format, heading="requests/s"
)
PROCESSOR = Figure(
    "processor_s_per_request",
    lambda run: run.processor_s_per_request,
    lambda value: milliseconds(1000 * value),
    6,
    "processor ms",
)
SHUTDOWN = Figure("shutdown_s", lambda run: run.shutdown.seconds, seconds, heading="shutdown")
PSS_BEFORE = Figure(
    "shutdown_start_pss_bytes", lambda run: run.shutdown.start_pss_bytes, megabytes, _BYTES
)
PEAK_PSS = Figure(
    "shutdown_peak_pss_bytes", lambda run: run.shutdown.peak_pss_bytes, megabytes, _BYTES
)
PEAK = Figure(
    "shutdown_peak_ratio", lambda run: run.shutdown.peak_ratio, "{:.2f}x".format, heading="peak"
)
BOOT = Figure("boot_s", lambda run: run.boot_s, seconds, heading="boot")
P50 = Figure("latency_p50", lambda run: run.load.p50_ms, milliseconds, _ALL, "p50 ms")
P95 = Figure("latency_p95", lambda run: run.load.p95_ms, milliseconds, _ALL, "p95 ms")
P99 = Figure("latency_p99", lambda run: run.load.p99_ms, milliseconds, _ALL, "p99 ms")

FIGURES = (PRIVATE, TOTAL, REQUESTS, PROCESSOR, SHUTDOWN, PSS_BEFORE, PEAK_PSS, PEAK, BOOT)
"""All figures, in the order of the document."""

LATENCIES = {"p50": P50, "p95": P95, "p99": P99}
"""Latencies, by their key in the document."""

COLUMNS = {
    "memory": (PRIVATE, TOTAL),
    "load": (REQUESTS, *LATENCIES.values(), PROCESSOR),
    "server": (BOOT, SHUTDOWN, PEAK),
}
"""The columns of the page in their order, by the heading above them."""

GUARDED = (PRIVATE, TOTAL, BOOT)
"""Figures compared with an earlier trial: memory of a worker, of the server, and its start."""
