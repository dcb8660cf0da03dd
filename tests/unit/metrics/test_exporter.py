"""What the exporter reports, from readings and a scoreboard made of numbers."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, generate_latest

from pasture.errors import NoPrivilege
from pasture.proc import tree
from pasture.proc.smaps import Memory
from pasture.proc.stat import Stat
from pasture.scoreboard.figures import Counts, SealFigures
from pasture.scoreboard.layout import Entry, Snapshot
from pasture_tools.metrics import exporter
from pasture_tools.metrics.exporter import ServerCollector
from pasture_tools.proc.sampler import ProcessMemory, Sample

Metrics = dict[tuple[str, tuple[str, ...]], float]


def process(pid: int, private: int) -> ProcessMemory:
    return ProcessMemory(pid, Memory(private + 50, private + 20, 0, private, 50))


def sample(*private: int) -> Sample:
    workers = tuple(process(pid, size) for pid, size in enumerate(private, start=11))
    return Sample(0.0, 0, process(10, 100), workers)


COUNTS = Counts(
    starts=3,
    recycles=1,
    requests=40,
    collections=(5, 2, 1),
    collected=(9, 0, 4),
    pauses=(1, 0, 2, 0, 0, 0, 0, 0, 0, 1),
    pause_ns=1_500_000_000,
)
SEAL = SealFigures("seal", "3.14", True, 2, 1000, 4096, 0.25)


def collected(collector: ServerCollector) -> Metrics:
    return {
        (found.name, tuple(found.labels.values())): found.value
        for family in collector.collect()
        for found in family.samples
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Readings that `sample_tree` gives in turn, and which children count as no workers."""
    given: dict[str, Any] = {"readings": [], "others": []}

    def read(master_pid: int, workers: Any, others: Any) -> Sample | None:
        given["others"].append(set(others))
        reading = given["readings"].pop(0)
        if isinstance(reading, Exception):
            raise reading
        return reading  # type: ignore[no-any-return]

    monkeypatch.setattr(exporter, "sample_tree", read)
    monkeypatch.setattr(tree, "workers_of", lambda pid: (11, 12, 13, 14))
    monkeypatch.setattr(
        exporter, "read_stat", lambda pid: Stat("python", "S", 1, 0, pid * 100, pid, 0, 0, 0)
    )
    return given


def test_memory_and_faults_are_reported_of_each_process(server: Any) -> None:
    server["readings"] = [sample(5, 6)]
    metrics = collected(ServerCollector(10, lambda pid: None))
    assert metrics["pasture_up", ()] == 1
    assert metrics["pasture_workers", ()] == 2
    assert metrics["pasture_tree_pss_bytes", ()] == 120 + 25 + 26
    assert metrics["pasture_process_private_bytes", ("worker", "12")] == 6
    assert metrics["pasture_process_faults_total", ("master", "10", "minor")] == 1000
    assert metrics["pasture_process_faults_total", ("worker", "11", "major")] == 11


def test_a_torn_reading_is_taken_again_and_a_server_that_never_rests_is_down(server: Any) -> None:
    server["readings"] = [None, None, sample(5)]
    assert collected(ServerCollector(10, lambda pid: None))["pasture_workers", ()] == 1
    server["readings"] = [None] * 5
    metrics = collected(ServerCollector(10, lambda pid: None))
    assert metrics == {("pasture_up", ()): 0} and server["readings"] == []


def test_counts_are_reported_of_a_server_whose_memory_may_not_be_read(server: Any) -> None:
    server["readings"] = [NoPrivilege("no", hint="")]
    metrics = collected(ServerCollector(10, lambda pid: Snapshot({}, COUNTS, None)))
    assert metrics["pasture_up", ()] == 0
    assert metrics["pasture_worker_starts_total", ()] == 3


def test_pauses_are_cumulated_and_the_last_bucket_holds_all(server: Any) -> None:
    server["readings"] = [sample()]
    metrics = collected(ServerCollector(10, lambda pid: Snapshot({}, COUNTS, None)))
    name = "pasture_collection_pause_seconds"
    assert metrics[f"{name}_bucket", ("0.0001",)] == 1
    assert metrics[f"{name}_bucket", ("0.001",)] == metrics[f"{name}_bucket", ("1.0",)] == 3
    assert metrics[f"{name}_bucket", ("+Inf",)] == metrics[f"{name}_count", ()] == 4
    assert metrics[f"{name}_sum", ()] == 1.5
    assert metrics["pasture_collections_total", ("2",)] == 1
    assert metrics["pasture_collected_objects_total", ("0",)] == 9


def test_growth_is_since_the_fork_where_the_worker_reports_it_and_else_since_the_first_look(
    server: Any,
) -> None:
    server["readings"] = [sample(50, 60), sample(58, 40)]
    entries = {11: Entry(11, private_at_start_bytes=30)}
    collector = ServerCollector(10, lambda pid: Snapshot(entries, Counts(), None))
    name = "pasture_process_growth_bytes"
    first, second = collected(collector), collected(collector)
    assert (first[name, ("worker", "11")], first[name, ("worker", "12")]) == (20, 0)
    assert (second[name, ("worker", "11")], second[name, ("worker", "12")]) == (28, 0)


def test_a_worker_that_grows_with_each_request_has_a_figure_for_that(
    server: Any,
) -> None:
    memory = Memory(0, 0, 0, 0, 0, anonymous_bytes=90_000_000)
    workers = tuple(ProcessMemory(pid, memory) for pid in (11, 12))
    server["readings"] = [Sample(0.0, 0, process(10, 100), workers)]
    marks = (10_000_000, 30_000_000, 70_000_000)
    entry = Entry(11, counts=Counts(requests=320), says_requests=True, marks=marks)
    metrics = collected(ServerCollector(10, lambda pid: Snapshot({11: entry}, Counts(), None)))
    name = "pasture_process_leak_bytes"
    assert (metrics[name, ("worker", "11")], metrics[name, ("worker", "12")]) == (312_500, 0)


def test_the_reader_of_memory_learns_which_processes_are_no_workers(server: Any) -> None:
    server["readings"] = [sample(5)]
    entries = {11: Entry(11, 1, "worker"), 12: Entry(12, 1, "mold"), 13: Entry(13, None, "mule")}
    collected(ServerCollector(10, lambda pid: Snapshot(entries, Counts(), None)))
    assert server["others"] == [{12, 13, 14}]


def test_the_seal_is_reported_and_is_0_where_there_was_none(server: Any) -> None:
    server["readings"] = [sample(), sample()]
    metrics = collected(ServerCollector(10, lambda pid: Snapshot({}, Counts(), SEAL)))
    assert metrics["pasture_seal_info", ("seal", "3.14", "")] == 1
    assert (metrics["pasture_seal_sealed", ()], metrics["pasture_seal_seconds", ()]) == (1, 0.25)
    for unsealed in (None, Snapshot({}, Counts(), None)):
        server["readings"] = [sample()]
        collector = ServerCollector(10)
        collector._read = {10: unsealed}.get
        metrics = collected(collector)
        assert metrics["pasture_seal_info", ("", "", "")] == 1
        figures = {v for (name, _), v in metrics.items() if name.startswith("pasture_seal_")}
        assert figures == {0, 1}


def test_the_page_names_each_metric_and_no_other(server: Any) -> None:
    page = (Path(__file__).parents[3] / "docs" / "operate.md").read_text()
    table = page.partition("| metric | labels | needs | is |")[2].partition("\n\n")[0]
    named = [
        name for cell in re.findall(r"^\| (`.*?) \|", table, re.M) for name in cell.split(", ")
    ]
    server["readings"] = [sample(5)]
    registry = CollectorRegistry()
    registry.register(ServerCollector(10, lambda pid: Snapshot({}, COUNTS, SEAL)))
    shown = generate_latest(registry).decode()
    assert sorted(named) == sorted(
        f"`{name}`" for name in re.findall(r"^# TYPE (\S+)", shown, re.M)
    )
