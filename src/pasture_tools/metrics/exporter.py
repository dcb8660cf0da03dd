"""The figures of one server in Prometheus's form.

Owns the prefix of their names, and names, help and labels of figures that are not on the
scoreboard: docs/grafana-dashboard.json and docs/operate.md use them. Reads the server's scoreboard
and the kernel's figures of its processes, but no file that the server names. Remembers only the
first private memory of each worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf

from pasture.errors import MissingExtra, PastureError
from pasture.proc import tree
from pasture.proc.cgroup import read_oom_kills, read_usage
from pasture.proc.stat import read_stat
from pasture.proc.tree import read_again
from pasture.scoreboard import figures
from pasture.scoreboard.figures import Counts, SealFigures
from pasture.scoreboard.growth import growth_of
from pasture.scoreboard.layout import Entry, Snapshot
from pasture.scoreboard.reader import read_scoreboard, workers_among
from pasture_tools.doctor.server import KINDS, parent_of_workers, state_of
from pasture_tools.doctor.trouble import is_locked
from pasture_tools.proc.sampler import ProcessMemory, Sample, sample_tree

try:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        InfoMetricFamily,
        Metric,
    )
    from prometheus_client.registry import Collector
except ImportError as error:
    raise MissingExtra(
        f"prometheus_client cannot be imported: {error}", hint="pip install 'pasture[metrics]'"
    ) from error

_TRIES = 5
_LEFT = "Part of the limit of the server's control group that is left, 1 without a limit"
_LIMIT = "Memory limit of the server's control group, +Inf without a limit"
_ROOM = "Memory until that limit, with clean file pages counted as free"
_KILLS = "Processes of the server's control group that the kernel has killed for memory"
_GROWTH = "Private memory of a worker above what it had right after its fork"
_LEAK = "Bytes by which a worker grows with each request, 0 where it does not go on to"
_LOCKED = "1 if a worker waits for a lock and cannot go on"
_UP = "1 if the server was found"
_STATE = "1 for the state of the server, 0 for the rest"
_PARENT = "Memory (RSS) of the process that forks what serves: the master, or its latest mold"
_PROCESS_GAUGES = (
    ("pss_bytes", "Proportional set size", "pss_bytes"),
    ("private_bytes", "Private memory (USS)", "private_bytes"),
    ("shared_bytes", "Memory that another process maps too", "shared_bytes"),
)


class ServerCollector(Collector):
    """Collects the figures of a master and its workers; `read` returns its scoreboard, if any.

    Attributes:
        master_pid: None while no server runs.
    """

    def __init__(
        self, master_pid: int | None, read: Callable[[int], Snapshot | None] = read_scoreboard
    ) -> None:
        self.master_pid = master_pid
        self._read = read
        self._first_private: dict[int, int] = {}

    def describe(self) -> Iterable[Metric]:
        """Describe nothing: else prometheus_client would collect at the registration."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Read all figures once; leave out those that cannot be read."""
        if self.master_pid is None:
            yield GaugeMetricFamily("pasture_up", _UP, False)
            return
        snapshot = self._read(self.master_pid)
        entries = snapshot.entries if snapshot is not None else {}
        sample = self._sample(self.master_pid, entries)
        yield GaugeMetricFamily("pasture_up", _UP, sample is not None)
        if sample is not None:
            yield from self._memory(sample, entries)
            usage = read_usage(self.master_pid)
            left = 1.0 if usage is None else usage.headroom_bytes / max(1, usage.limit_bytes)
            yield GaugeMetricFamily("pasture_limit_left_ratio", _LEFT, left)
            limit, room = (inf, inf) if usage is None else (usage.limit_bytes, usage.headroom_bytes)
            yield GaugeMetricFamily("pasture_limit_bytes", _LIMIT, limit)
            yield GaugeMetricFamily("pasture_headroom_bytes", _ROOM, room)
            kills = read_oom_kills(self.master_pid)
            yield CounterMetricFamily("pasture_oom_kills", _KILLS, kills)
            yield from _faults(sample, entries)
            now = state_of(self.master_pid, snapshot).kind
            gauge = GaugeMetricFamily("pasture_state", _STATE, labels=("state",))
            for kind in KINDS:
                gauge.add_metric((kind,), kind == now)
            yield gauge
        if snapshot is not None:
            yield from _counted(snapshot.total)
        if sample is not None or snapshot is not None:
            seal = None if snapshot is None else snapshot.seal
            yield from _seal(seal or SealFigures())  # an alert needs a 0 to be raised

    def _sample(self, master_pid: int, entries: dict[int, Entry]) -> Sample | None:
        """A reading during which no process ended; with constant recycling it may take several
        tries.
        """

        def once() -> Sample | None:
            pids = tree.workers_of(master_pid)
            others = set(pids).difference(workers_among(pids, entries))
            return sample_tree(master_pid, workers=pids, others=others)

        try:
            return read_again(once, _TRIES)
        except PastureError:
            return None

    def _memory(self, sample: Sample, entries: dict[int, Entry]) -> Iterator[Metric]:
        yield GaugeMetricFamily("pasture_workers", "Workers of the master", len(sample.workers))
        total = "Proportional set size of master and workers: what the server takes"
        yield GaugeMetricFamily("pasture_tree_pss_bytes", total, sample.total_pss_bytes)
        for name, help_text, attribute in _PROCESS_GAUGES:
            gauge = GaugeMetricFamily(f"pasture_process_{name}", help_text, labels=("role", "pid"))
            for role, process in _processes(sample, entries):
                gauge.add_metric((role, str(process.pid)), getattr(process.memory, attribute))
            yield gauge
        parent = parent_of_workers(sample.master.pid, entries)
        forking = [one for one in sample.others if one.pid == parent] or [sample.master]
        yield GaugeMetricFamily("pasture_parent_bytes", _PARENT, forking[0].memory.rss_bytes)
        yield self._growth(sample, entries)

        def leak(worker: ProcessMemory) -> float:
            growth = growth_of(entries.get(worker.pid), worker.memory.anonymous_bytes)
            return growth.bytes_a_request if growth else 0

        yield _of_workers("leak_bytes", _LEAK, sample, leak)
        yield _of_workers(
            "locked", _LOCKED, sample, lambda one: is_locked(one.pid, entries.get(one.pid))
        )

    def _growth(self, sample: Sample, entries: dict[int, Entry]) -> Metric:
        first = {}
        for worker in sample.workers:
            now, pid = worker.memory.private_bytes, worker.pid
            counted = entries[pid].private_at_start_bytes if pid in entries else 0
            first[pid] = counted or self._first_private.get(pid, now)
        self._first_private = first
        return _of_workers(
            "growth_bytes", _GROWTH, sample,
            lambda worker: max(0, worker.memory.private_bytes - first[worker.pid]),
        )  # fmt: skip


def _of_workers(
    name: str, help_text: str, sample: Sample, figure: Callable[[ProcessMemory], float]
) -> Metric:
    gauge = GaugeMetricFamily(f"pasture_process_{name}", help_text, labels=("role", "pid"))
    for worker in sample.workers:
        gauge.add_metric(("worker", str(worker.pid)), figure(worker))
    return gauge


def _processes(sample: Sample, entries: dict[int, Entry]) -> Iterator[tuple[str, ProcessMemory]]:
    yield "master", sample.master
    for worker in sample.workers:
        yield "worker", worker
    for other in sample.others:
        yield entries[other.pid].role if other.pid in entries else "other", other


def _faults(sample: Sample, entries: dict[int, Entry]) -> Iterator[Metric]:
    labels = ("role", "pid", "kind")
    counter = CounterMetricFamily("pasture_process_faults", "Page faults", labels=labels)
    for role, process in _processes(sample, entries):
        stat = read_stat(process.pid)
        if stat is not None:  # or it has just ended
            for kind, count in (("minor", stat.minor_faults), ("major", stat.major_faults)):
                counter.add_metric((role, str(process.pid), kind), count)
    yield counter


def _counted(total: Counts) -> Iterator[Metric]:
    for name, metric in figures.metrics(Counts).items():
        counted = getattr(total, name)
        if not metric.label:
            yield CounterMetricFamily(f"pasture_{metric.name}", metric.help, counted)
            continue
        counter = CounterMetricFamily(f"pasture_{metric.name}", metric.help, labels=(metric.label,))
        for number, count in enumerate(counted):
            counter.add_metric((str(number),), count)
        yield counter
    buckets, cumulated = [], 0
    bounds = (*map(str, figures.PAUSE_BOUNDS_S), "+Inf")
    for bound, count in zip(bounds, total.pauses, strict=True):
        cumulated += count
        buckets.append((bound, float(cumulated)))
    yield HistogramMetricFamily(
        "pasture_collection_pause_seconds",
        "Time for which a garbage collection stopped a worker",
        buckets=buckets,
        sum_value=total.pause_ns / 1e9,
    )


def _seal(seal: SealFigures) -> Iterator[Metric]:
    info = {"policy": seal.policy, "python": seal.python, "why": seal.why}
    yield InfoMetricFamily("pasture_seal", "The latest seal of the master", value=info)
    for name, metric in figures.metrics(SealFigures).items():
        value = float(getattr(seal, name))
        yield GaugeMetricFamily(f"pasture_{metric.name}", metric.help, value)
