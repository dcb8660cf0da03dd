"""Results of trials made of numbers."""

from collections.abc import Callable
from typing import Any

import pytest

from pasture.proc.smaps import Memory
from pasture_tools.proc.sampler import ProcessMemory, Sample
from pasture_tools.trial.measurement import LoadFigures, PolicyResult, Run, Shutdown, TrialResult
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.responses import UrlAnswers

MB = 1_000_000
MakeRun = Callable[..., Run]
MakeResult = Callable[..., TrialResult]


def _memory(private: int, shared: int, processes: int) -> Memory:
    return Memory(
        rss_bytes=private + shared,
        pss_bytes=private + shared // processes,
        private_clean_bytes=0,
        private_dirty_bytes=private,
        shared_bytes=shared,
    )


def _sample(seconds: float, requests: int, private: int, shared: int, workers: int) -> Sample:
    memory = _memory(private, shared, workers + 1)
    return Sample(
        seconds,
        requests,
        ProcessMemory(100, _memory(1 * MB, shared, workers + 1)),
        tuple(ProcessMemory(101 + i, memory) for i in range(workers)),
    )


@pytest.fixture
def make_run() -> MakeRun:
    """Makes a run of one policy; every number has a default."""

    def make(
        policy: str = "stock",
        *,
        round: int = 0,
        private: int = 20 * MB,
        shared: int = 50 * MB,
        workers: int = 4,
        requests: int = 100,
        **other: Any,
    ) -> Run:
        final = _sample(2.0, requests, private, shared, workers)
        series = (_sample(0.0, 0, private // 4, shared, workers), final)
        total = final.total_pss_bytes
        fields: dict[str, Any] = {
            "boot_s": 1.5,
            "load": LoadFigures(requests, 0, 2.0, p50_ms=4.0, p95_ms=9.5, p99_ms=20.25),
            "shutdown": Shutdown(0.5, total, total * 2, samples=10, workers_seconds=0.4),
            "processor_s": 0.04 * requests,
            "answers": {"GET /": UrlAnswers({200: requests}, {"aa": requests})},
            "paths": ("GET /",),
        }
        return Run(policy=policy, round=round, series=series, final=final, **fields | other)

    return make


@pytest.fixture
def make_result(make_run: MakeRun) -> MakeResult:
    """Makes the result of a trial from runs; by default stock and a seal that saves."""

    def make(*runs: Run, notes: tuple[str, ...] = (), **plan: Any) -> TrialResult:
        done = runs or (make_run("stock"), make_run("seal", private=5 * MB))
        names = tuple(dict.fromkeys(run.policy for run in done))
        policies = tuple(
            PolicyResult(name, tuple(run for run in done if run.policy == name)) for name in names
        )
        rounds = max(run.round for run in done) + 1
        settings: dict[str, Any] = {"app": "site:application", "policies": names, "rounds": rounds}
        interpreter = {
            "implementation": "CPython",
            "version": "3.14.0",
            "executable": "/usr/bin/python3.14",
            "platform": "Linux",
        }
        machine = {
            "architecture": "x86_64",
            "processor": "a fast one",
            "processors": 4,
            "os_page_bytes": 4096,
        }
        return TrialResult(
            TrialPlan(**settings | plan), interpreter, machine, policies, notes=notes
        )

    return make
