"""The end of a server, measured on processes and a clock that are made up."""

from types import SimpleNamespace
from typing import Any

import pytest

from pasture.proc import smaps
from pasture_tools.trial import run

MB = 1_000_000


class Server:
    """A master, pid 1, with workers 2 and 3. `life` says what each pause of a second
    brings: a dict of pid to PSS in MB for each second after SIGTERM.
    """

    pid = 1

    def __init__(self, *life: dict[int, int]) -> None:
        self.life, self.seconds, self.killed = life, 0.0, False
        self.terminated = False

    @property
    def now(self) -> dict[int, int]:
        at = int(self.seconds)
        return self.life[at] if at < len(self.life) and not self.killed else {}

    def members(self) -> tuple[int, ...]:
        return tuple(self.now)

    def exit_code(self) -> int | None:
        return None if 1 in self.now else 0

    def terminate(self) -> None:
        self.terminated = True

    def end(self) -> None:
        self.killed = True

    def pause(self, seconds: float) -> None:
        self.seconds += 1


def measure(server: Server, monkeypatch: pytest.MonkeyPatch, timeout_s: float = 90.0) -> Any:
    def read(pids: tuple[int, ...]) -> list[Any] | None:
        if any(pid not in server.now for pid in pids):
            return None
        return [SimpleNamespace(memory=SimpleNamespace(pss_bytes=server.now[p] * MB)) for p in pids]

    monkeypatch.setattr(run, "read_together", read)
    monkeypatch.setattr(smaps, "has_memory", lambda pid: pid in server.now)
    clock = SimpleNamespace(monotonic=lambda: server.seconds)
    monkeypatch.setattr(run, "time", clock)
    group: Any = server
    return run.stop_and_measure(group, server.pause, timeout_s)


def test_the_peak_is_that_of_all_processes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({1: 40, 2: 10, 3: 10}, {1: 20, 2: 50, 3: 30}, {1: 50, 2: 30}, {1: 60})
    measured = measure(server, monkeypatch)
    assert server.terminated and measured.by_itself
    assert (measured.start_pss_bytes, measured.peak_pss_bytes) == (60 * MB, 100 * MB)


def test_workers_and_master_have_ends_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({1: 40, 2: 10}, {1: 40, 2: 10}, {1: 40}, {1: 40}, {1: 40})
    measured = measure(server, monkeypatch)
    assert (measured.workers_seconds, measured.seconds) == (2, 5)
    assert measured.samples == 5


def test_a_server_that_ends_as_a_whole_ends_with_its_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = measure(Server({1: 40, 2: 10}, {1: 40, 2: 10}), monkeypatch)
    assert measured.workers_seconds == measured.seconds == 2


def test_one_that_does_not_end_in_time_is_killed_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(*[{1: 40, 2: 10}] * 100)
    measured = measure(server, monkeypatch, timeout_s=3)
    assert server.killed and not measured.by_itself
