"""The Django site of the experiments of 2017 under load: what happens to a fresh worker, and to
all of them when they are stopped.

Owns how `sites/shelf_site.py` is loaded and read; what is compared is the experiments'.

A request builds 4,000 container objects and drops them, keeps 300 for the first 150 requests as
a worker does that fills its caches, and leaves 100 of cyclic garbage: CPython collects
everything only once a quarter of the long-lived objects are new (CPython 3.14 Python/gc.c),
which a site that builds and keeps next to nothing never meets.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pasture.proc.stat import read_stat
from pasture_lab.engine.experiment import Bench
from pasture_lab.engine.figures import Measured, curve
from pasture_lab.processes.client import SteadyLoad, burst
from pasture_lab.processes.server import Server, ServerPlan, median, serving
from pasture_tools.proc.sampler import Sample
from pasture_tools.trial.run import stop_and_measure

WORKERS = 4
RATE = 300.0
LOAD = {
    "LAB_SHELF": "150000",
    "LAB_TEMPORARY": "4000",
    "LAB_REMEMBER": "300",
    "LAB_MOST": "150",
    "LAB_GARBAGE": "100",
}

_STEP_S = 0.5
_WORKERS_TO_STOP = 8


@dataclass(frozen=True, slots=True)
class Variant:
    """The setting of the collector: by the site itself, or by a policy of pasture's."""

    name: str
    gc: str = "stock"
    policy: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)

    def plan(self, workers: int, load: Mapping[str, str]) -> ServerPlan:
        """The server that shows it."""
        env = {"LAB_GC": self.gc, **load, **self.more}
        return ServerPlan(module="shelf_site", workers=workers, policy=self.policy, env=env)


def fresh_worker(variant: Variant, seconds: float, requests: int, bench: Bench) -> Measured:
    """Memory of fresh workers second by second under a steady load, then their throughput.

    Args:
        requests: sent as fast as they are answered, to measure the workers' processor time.
    """
    with serving(bench, variant.plan(WORKERS, LOAD)) as server:
        samples = _watch(server, seconds, bench)
        before, start = server.cpu_s(), time.monotonic()
        failed = burst(server.port, requests)
        elapsed, cpu_s = time.monotonic() - start, server.cpu_s() - before
    first, last = samples[0], samples[-1]
    private = sum(worker.memory.private_bytes for worker in last.workers)
    notes = (f"{failed} of {requests} requests failed",) if failed else ()
    return Measured(
        {
            "rss_start_bytes": median(first, lambda m: m.rss_bytes),
            "shared_start_bytes": median(first, lambda m: m.shared_bytes),
            "shared_end_bytes": median(last, lambda m: m.shared_bytes),
            "private_end_bytes": median(last, lambda m: m.private_bytes),
            "total_pss_bytes": last.total_pss_bytes,
            "once_bytes": last.total_pss_bytes - private,
            "requests": last.requests,
            "requests_a_cpu_second": requests / cpu_s,
            "requests_a_second": requests / elapsed,
        },
        {
            "shared_bytes": curve(
                [s.seconds for s in samples], [median(s, lambda m: m.shared_bytes) for s in samples]
            ),
            "private_bytes": curve(
                [s.seconds for s in samples],
                [median(s, lambda m: m.private_bytes) for s in samples],
            ),
        },
        notes,
    )


def _watch(server: Server, seconds: float, bench: Bench) -> list[Sample]:
    """Samples every half second, the first before any request."""
    samples = [server.sample()]
    start = time.monotonic()
    with SteadyLoad(server.port, RATE) as load:
        while (elapsed := time.monotonic() - start) < seconds:
            bench.pause(_STEP_S)
            bench.report(elapsed / seconds)
            found = server.sample(load.answered)
            samples.append(
                Sample(time.monotonic() - start, found.requests, found.master, found.workers)
            )
    return samples


def stop(variant: Variant, requests: int, bench: Bench) -> Measured:
    """Stop a server with eight workers that have served a while: time, faults and peak of PSS."""
    with serving(bench, variant.plan(_WORKERS_TO_STOP, LOAD)) as server:
        failed = burst(server.port, requests)
        bench.pause(0.5)
        earlier = _faults_of_ended()
        lived = _faults_so_far(server)
        shutdown = stop_and_measure(server.group, bench.pause)
    # Master and workers are waited for by now, so that their faults are among our children's.
    faults = _faults_of_ended() - earlier - lived
    notes = [f"{failed} of {requests} requests failed"] if failed else []
    if not shutdown.by_itself:
        notes.append("the server did not end by itself and was killed")
    return Measured(
        {
            "stop_s": shutdown.seconds,
            "workers_stop_s": shutdown.workers_seconds,
            "stop_minor_faults": faults,
            "start_pss_bytes": shutdown.start_pss_bytes,
            "peak_pss_bytes": shutdown.peak_pss_bytes,
            "peak_ratio": shutdown.peak_ratio,
        },
        notes=tuple(notes),
    )


def _faults_of_ended() -> int:
    """Minor faults of processes that ended and were waited for, theirs included."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def _faults_so_far(server: Server) -> int:
    """Faults of master and workers, and of ended workers."""
    stats = {pid: read_stat(pid) for pid in (server.group.pid, *server.workers())}
    master = stats[server.group.pid]
    ended = master.minor_faults_of_ended if master is not None else 0
    return ended + sum(stat.minor_faults for stat in stats.values() if stat is not None)
