"""The life cycle of molds and generations, played through without a process."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasture.refork.children import Worker
from pasture.refork.lifecycle import Lifecycle
from pasture.refork.rollout import (
    Action,
    Dismiss,
    Kill,
    Limits,
    Measure,
    Note,
    Promote,
    Retire,
    Spawn,
)
from pasture.refork.schedule import Schedule
from pasture.scoreboard.board import WorkerStatus

LIMITS = Limits(boot_s=30, mold_s=60, proof_s=2, leave_s=5, backoff_s=10)


@dataclass
class Process:
    generation: int
    serves: bool = True
    ready: bool = False
    requests: int = 0
    unsafe: bool = False
    alive: bool = True
    asked: list[str] = field(default_factory=list)


class Server:
    """Does what a life cycle asks for, in no time, unless a test says otherwise."""

    def __init__(self, wanted: int = 4, limits: tuple[int, ...] = (10, 100)) -> None:
        self.wanted = wanted
        self.now = 0.0
        self.processes: dict[int, Process] = {}
        self.log: list[str] = []
        self.done: list[Action] = []
        self.total_bytes: Callable[[], int | None] = self.less_and_less
        self.lifecycle = Lifecycle(Schedule(limits), LIMITS)
        self.mold_obeys = self.retired_end = True
        self.boots: Callable[[int], bool] = lambda generation: True
        self.mold_forks: Callable[[int], bool] = lambda generation: True
        self.min_capacity = wanted
        self._pid = 0

    def less_and_less(self) -> int:
        return int(10**12 * 0.98 ** len(self.done))

    @property
    def phase(self) -> str:
        return str(self.lifecycle.phase)

    def generations(self) -> set[int]:
        return {p.generation for p in self.processes.values() if p.alive}

    def workers(self) -> list[int]:
        return [pid for pid, p in self.processes.items() if p.alive and p.serves]

    def run(self, seconds: float = 0.0) -> None:
        """Let time pass and do all there is to do."""
        for _ in range(max(1, round(seconds))):
            self.now += seconds and 1.0
            self.settle()

    def settle(self) -> None:
        for _ in range(300):
            statuses = {
                pid: WorkerStatus(p.ready, p.requests, p.unsafe)
                for pid, p in self.processes.items()
                if p.alive and p.serves
            }
            action = self.lifecycle.next_action(self.now, self.wanted, statuses)
            if action is None:
                return
            self.done.append(action)
            self.perform(action)
        raise AssertionError(f"no end of actions: {self.done[-5:]}")

    def perform(self, action: Action) -> None:
        cycle = self.lifecycle
        match action:
            case Spawn(generation) if generation and not self.mold_forks(generation):
                cycle.not_spawned(generation, "fork failed", self.now)
            case Spawn(generation):
                self._pid += 1
                self.processes[self._pid] = Process(generation, ready=self.boots(generation))
                cycle.spawned(Worker(self._pid, generation, self.now))
            case Promote(pid, generation):
                self.processes[pid].serves = False
                self.processes[pid].generation = generation
                if self.mold_obeys:
                    cycle.sealed(pid, self.now)
            case Retire(pid) | Dismiss(pid):
                self.processes[pid].asked.append("end")
                obeys = self.retired_end if isinstance(action, Retire) else self.mold_obeys
                if obeys:
                    self.end(pid)
            case Kill(pid):
                self.end(pid, clean=False)
            case Measure():
                cycle.measured(self.total_bytes(), self.now)
            case Note(_, text):
                self.log.append(text)
        if cycle.phase != "idle":
            ready = [p for p in self.processes.values() if p.alive and p.serves and p.ready]
            self.min_capacity = min(self.min_capacity, len(ready))

    def end(self, pid: int, clean: bool = True) -> None:
        if self.processes[pid].alive:
            self.processes[pid].alive = False
            self.lifecycle.ended(pid, clean, self.now)

    def serve(self, requests: int) -> None:
        """Every worker answers the given number of requests more."""
        for pid in self.workers():
            self.processes[pid].requests += requests

    def retired(self) -> list[int]:
        """Workers that were asked to end and have not."""
        return [pid for pid in self.workers() if self.processes[pid].asked]

    def chosen(self) -> int:
        """The worker that the present rollout makes a mold."""
        assert self.lifecycle.rollout is not None
        return self.lifecycle.rollout.chosen.pid

    def canary(self) -> int:
        assert self.lifecycle.rollout is not None and self.lifecycle.rollout.canary is not None
        return self.lifecycle.rollout.canary.pid

    def mold(self, generation: int) -> int:
        mold = self.lifecycle.children.mold_of(generation)
        assert mold is not None
        return mold.pid

    def logged(self, text: str) -> bool:
        return any(text in line for line in self.log)


@pytest.fixture
def server() -> Server:
    server = Server()
    server.run()
    return server


def test_missing_workers_are_forked_from_the_server_itself(server: Server) -> None:
    assert server.done == [Spawn(0)] * 4
    server.end(1)
    server.run()
    assert server.done[-1] == Spawn(0) and len(server.workers()) == 4


def test_nothing_is_promoted_before_the_limit(server: Server) -> None:
    server.serve(9)
    server.run(60)
    assert server.phase == "idle" and server.lifecycle.generation == 0


def test_the_worker_that_served_most_becomes_the_mold(server: Server) -> None:
    server.processes[3].requests = 12
    server.processes[2].requests = 11
    server.run()
    assert Promote(3, 1) in server.done


@pytest.mark.parametrize("wanted", [1, 2, 4, 9, 10, 25])
def test_at_most_a_tenth_of_the_workers_is_missing_at_any_time(wanted: int) -> None:
    server = Server(wanted)
    server.run()
    server.serve(10)
    server.run(5)
    assert server.generations() == {1}
    assert server.min_capacity >= wanted - wanted // 10


def test_a_replacement_that_is_not_ready_keeps_the_old_worker(server: Server) -> None:
    server.serve(10)
    server.run()
    assert server.phase == "canary"
    server.boots = lambda generation: False
    server.run(5)
    assert server.phase == "rolling"
    assert [server.processes[pid].ready for pid in server.workers()] == [True] * 4 + [False]
    assert sum(isinstance(action, Retire) for action in server.done) == 1


def test_the_first_worker_of_a_mold_proves_itself_by_an_answer_or_by_living(
    server: Server,
) -> None:
    server.serve(10)
    server.run(1)
    assert server.phase == "canary"
    server.serve(1)
    server.run()
    assert server.phase == "idle" and server.lifecycle.generation == 1


def test_the_old_mold_is_dismissed_when_the_new_generation_is_complete(server: Server) -> None:
    server.serve(10)
    server.run(5)
    first_mold = next(a.pid for a in server.done if isinstance(a, Promote))
    server.serve(100)
    server.run(5)
    assert server.generations() == {2}
    assert server.processes[first_mold].asked == ["end"]


def test_limits_grow_and_the_last_one_holds_on() -> None:
    server = Server(limits=(10, 20))
    server.run()
    for generation, requests in ((1, 10), (2, 20), (3, 20), (4, 20)):
        server.serve(requests - 1)
        server.run(5)
        assert server.lifecycle.generation == generation - 1
        server.serve(1)
        server.run(5)
        assert server.lifecycle.generation == generation


def test_more_and_fewer_workers_are_wanted_in_any_generation(server: Server) -> None:
    server.serve(10)
    server.run(5)
    server.wanted = 6
    server.run()
    assert server.done[-2:] == [Spawn(1)] * 2 and len(server.workers()) == 6
    server.wanted = 2
    server.run()
    assert len(server.workers()) == 2


def test_a_worker_marked_unsafe_is_not_chosen(server: Server) -> None:
    for pid in (1, 2, 3):
        server.processes[pid].unsafe = True
    server.serve(10)
    server.run()
    assert Promote(4, 1) in server.done
    assert server.logged("worker 1 is no longer safe to fork")


def test_without_a_safe_worker_the_service_goes_on_as_it_is(server: Server) -> None:
    for pid in (1, 2, 3, 4):
        server.processes[pid].unsafe = True
    server.serve(10)
    server.run(100)
    assert server.generations() == {0} and len(server.log) == 4


def fail_rollout(server: Server, how: str) -> None:
    """Provoke a failure of the mold of the next rollout."""
    if how == "does not start":
        server.mold_obeys = False
        server.run()
        server.end(server.chosen(), clean=False)
    elif how == "hangs":
        server.mold_obeys = False
        server.run(61)
    elif how == "refuses":
        server.mold_obeys = False
        server.run()
        chosen = server.chosen()
        server.lifecycle.refused(chosen, "thread x runs", server.now)
        server.end(chosen)
    elif how == "dies while forking":
        newest = server.lifecycle.generation + 1
        server.mold_forks = lambda generation: generation < newest
    elif how == "its worker dies":
        server.run()
        server.end(server.canary(), clean=False)
    else:
        newest = server.lifecycle.generation + (how == "its worker is never ready")
        server.boots = lambda generation: generation < newest
        server.run(33)
    server.run()
    server.mold_obeys, server.boots = True, lambda generation: True
    server.mold_forks = lambda generation: True
    for process in server.processes.values():
        process.ready = True


FAILURES = (
    "does not start",
    "hangs",
    "refuses",
    "dies while forking",
    "its worker dies",
    "its worker is never ready",
    "the spare worker is never ready",
)


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("good", [0, 1])
def test_after_a_failure_the_last_good_generation_goes_on(how: str, good: int) -> None:
    server = Server()
    server.run()
    if good:
        server.serve(10)
        server.run(5)
        server.serve(100)
    else:
        server.serve(10)
    fail_rollout(server, how)
    server.run(6)
    assert server.lifecycle.generation == good
    assert server.generations() == {good} and len(server.workers()) == 4
    assert server.logged(f"refork to generation {good + 1} failed")
    assert not any(p.alive and not p.serves for p in server.processes.values()) or good


@pytest.mark.parametrize("how", FAILURES)
def test_a_failed_refork_is_tried_again_later(server: Server, how: str) -> None:
    server.serve(10)
    fail_rollout(server, how)
    server.serve(100)
    server.run(40)
    assert server.generations() == {2} and len(server.workers()) == 4


def test_after_three_failures_in_a_row_nothing_is_tried_until_a_reload(server: Server) -> None:
    server.serve(10)
    server.mold_forks = lambda generation: False
    for _ in range(10):
        server.serve(100)
        server.run(50)
    assert sum("failed" in line for line in server.log) == 3
    assert server.logged("no further try until the next HUP")
    server.lifecycle.reload(server.now)
    server.mold_forks = lambda generation: True
    for pid in server.workers():
        server.end(pid)
    server.run()
    server.serve(10)
    server.run(5)
    assert server.generations() == {1}


def test_what_two_workers_refuse_for_in_the_same_words_is_not_tried_a_third_time(
    server: Server,
) -> None:
    server.mold_obeys = False
    for _ in range(2):
        server.serve(100)
        server.run()
        chosen = server.chosen()
        server.lifecycle.refused(chosen, "thread x runs", server.now)
        server.end(chosen)
        server.run(30)
    assert server.logged("as for the worker before it, no further try until the next HUP")
    server.serve(100)
    server.run(100)
    assert sum("failed" in line for line in server.log) == 2
    assert server.lifecycle.phase == "idle" and server.generations() == {0}


def test_a_mold_that_dies_in_service_is_replaced_by_generation_0_and_a_new_rollout(
    server: Server,
) -> None:
    server.serve(10)
    server.run(5)
    [mold] = [pid for pid, p in server.processes.items() if p.alive and not p.serves]
    server.end(mold, clean=False)
    server.end(server.workers()[0], clean=False)
    server.run()
    assert server.done[-1] == Spawn(0)
    assert server.logged("mold of generation 1 lost")
    server.serve(10)
    server.run(5)
    assert server.generations() == {2}


def test_a_mold_that_dies_while_workers_are_replaced_leaves_the_one_before(
    server: Server,
) -> None:
    server.serve(10)
    server.run(5)
    server.serve(100)
    server.run()
    server.boots = lambda generation: False
    server.run(3)
    assert server.phase == "rolling" and server.lifecycle.generation == 2
    server.end(server.mold(2), clean=False)
    server.run()
    assert server.lifecycle.generation == 1 and len(server.workers()) >= 4


def test_a_mold_that_hangs_in_service_is_killed(server: Server) -> None:
    server.serve(10)
    server.run(5)
    mold = server.mold(1)
    server.lifecycle.hung(mold, server.now)
    server.run()
    assert Kill(mold) in server.done and server.lifecycle.generation == 0


def test_a_dismissed_mold_that_stays_is_killed(server: Server) -> None:
    server.serve(10)
    server.run(5)
    mold = server.mold(1)
    server.mold_obeys = False
    server.lifecycle.reload(server.now)
    server.run(10)
    assert Kill(mold) in server.done and not server.processes[mold].alive


def test_a_mold_whose_workers_end_before_their_first_answer_is_given_up(server: Server) -> None:
    server.serve(10)
    server.run(5)
    for _ in range(2):
        newest = server.workers()[-1]
        assert server.processes[newest].requests == 0
        server.end(newest, clean=False)
        server.run()
    assert server.lifecycle.generation == 0
    assert server.logged("its workers end before their first answer")


def test_a_reload_goes_back_to_generation_0(server: Server) -> None:
    server.serve(10)
    server.run(5)
    before = server.workers()
    server.lifecycle.reload(server.now)
    for _ in range(4):  # as gunicorn does at HUP
        server.perform(Spawn(0))
    server.run(2)
    assert not set(before) & set(server.workers()) and server.generations() == {0}
    server.serve(10)
    server.run(5)
    assert server.generations() == {1}


def test_at_a_reload_a_promoted_worker_has_as_long_for_its_requests_as_others() -> None:
    server = Server()
    server.run()
    server.serve(10)
    server.mold_obeys = server.retired_end = False
    server.run()
    chosen, before = server.chosen(), len(server.done)
    assert server.phase == "promoting"
    server.lifecycle.reload(server.now)
    server.run(600)
    assert Retire(chosen) in server.done[before:] and Kill(chosen) not in server.done


@pytest.mark.parametrize("phase", ["backfilling", "promoting", "canary", "rolling"])
def test_a_reload_in_the_middle_of_a_rollout_leaves_nothing_of_it(phase: str) -> None:
    server = Server()
    server.run()
    server.serve(10)
    server.boots = lambda generation: phase != "backfilling"
    server.mold_obeys = phase != "promoting"
    server.run()
    if phase == "rolling":
        server.boots = lambda generation: False
        server.run(3)
    assert server.phase == phase
    server.boots, server.mold_obeys = lambda generation: True, True
    server.lifecycle.reload(server.now)
    for _ in range(4):
        server.perform(Spawn(0))
    server.run(3)
    assert server.generations() == {0} and len(server.workers()) == 4


def test_a_refork_that_saves_nothing_is_the_last(server: Server) -> None:
    server.total_bytes = lambda: 1000
    server.serve(10)
    server.run(5)
    server.serve(10)
    server.run(5)
    assert server.logged("generation 1 does not pay: total PSS 0.0 MB before, 0.0 MB after")
    server.serve(1000)
    server.run(50)
    assert server.generations() == {1}


def test_memory_after_a_refork_is_compared_at_as_many_requests_as_before(server: Server) -> None:
    server.serve(50)
    server.run(5)
    assert measurements(server) == 1
    server.serve(49)
    server.run(2)
    assert measurements(server) == 1
    server.serve(1)
    server.run(2)
    assert measurements(server) == 2
    assert server.logged("at 50 requests a worker")


def measurements(server: Server) -> int:
    return sum(isinstance(action, Measure) for action in server.done)


def refork_while_requests_of_the_replaced_last(server: Server) -> None:
    server.retired_end = False
    server.serve(10)
    for _ in range(10):
        server.run(1)
        if server.phase == "rolling":
            for pid in server.retired():
                server.end(pid)
    assert server.logged("all workers are of generation 1") and len(server.retired()) == 1


def test_memory_after_a_refork_is_measured_when_the_last_replaced_worker_has_ended(
    server: Server,
) -> None:
    refork_while_requests_of_the_replaced_last(server)
    server.serve(10)
    server.run(2)
    assert measurements(server) == 1
    server.end(server.retired()[0])
    server.run()
    assert measurements(server) == 2


def test_a_replaced_worker_that_does_not_end_is_measured_with_the_others(server: Server) -> None:
    refork_while_requests_of_the_replaced_last(server)
    server.serve(10)
    server.run(LIMITS.mold_s - 10)
    assert measurements(server) == 1
    server.run(12)
    assert measurements(server) == 2


def test_where_memory_cannot_be_measured_reforks_go_on(server: Server) -> None:
    server.total_bytes = lambda: None
    server.serve(10)
    server.run(5)
    server.serve(100)
    server.run(5)
    assert server.generations() == {2}


def test_a_chosen_worker_that_ends_before_its_promotion_is_no_failure(server: Server) -> None:
    server.boots = lambda generation: False
    server.serve(10)
    server.run()
    assert server.phase == "backfilling"
    server.end(server.chosen())
    server.boots = lambda generation: True
    for process in server.processes.values():
        process.ready = True
    server.run(5)
    assert server.generations() == {1} and not server.logged("failed")


def test_a_mold_that_is_lost_right_after_the_measurement_does_not_end_all_further_rollouts(
    server: Server,
) -> None:
    server.serve(10)
    server.run(5)
    server.serve(10)
    server.run(5)

    def a_worker_ends_meanwhile() -> int:
        server.mold_forks = lambda generation: False
        server.end(server.workers()[-1], clean=False)  # the first one is chosen
        return 10**12

    server.total_bytes = a_worker_ends_meanwhile
    server.serve(100)
    server.run()
    assert server.logged("mold of generation 1 lost")
    server.mold_forks, server.total_bytes = lambda generation: True, server.less_and_less
    server.serve(100)
    server.run(40)
    assert server.generations() == {server.lifecycle.generation} != {0}


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_whatever_happens_the_service_comes_back_to_full_strength(wanted: int, seed: int) -> None:
    chance = random.Random(seed)
    server = Server(wanted, limits=(5, 20))
    server.run()
    for _ in range(40):
        server.mold_obeys = chance.random() < 0.8
        server.boots = lambda generation: chance.random() < 0.8
        server.mold_forks = lambda generation: chance.random() < 0.9
        for process in server.processes.values():
            process.ready = process.ready or chance.random() < 0.3
        server.serve(chance.randrange(15))
        alive = [pid for pid, process in server.processes.items() if process.alive]
        if chance.random() < 0.2:
            server.end(chance.choice(alive), clean=chance.random() < 0.3)
        if chance.random() < 0.03:
            server.lifecycle.reload(server.now)
        if chance.random() < 0.05:
            server.wanted = chance.randrange(1, 12)
        server.run(chance.choice([1, 1, 1, 10, 40]))
    server.mold_obeys, server.boots = True, lambda generation: True
    server.mold_forks = lambda generation: True
    for _ in range(100):
        for process in server.processes.values():
            process.ready = True
        server.run(1)
    assert len(server.workers()) == server.wanted
    molds = [pid for pid, p in server.processes.items() if p.alive and not p.serves]
    assert len(molds) <= 1
    assert len([p for p in server.processes.values() if p.alive]) == server.wanted + len(molds)
