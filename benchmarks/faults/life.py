"""One engine in one variant, over all its lives, under faults."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.faults import kinds as fault_kinds
from benchmarks.faults.engines import Kind, Start, served
from benchmarks.faults.jobs import Asked, Client, Done, Jobs
from benchmarks.faults.kinds import Impossible, Scene
from benchmarks.faults.servers import PROGRAMS as TEST_PROGRAMS
from benchmarks.faults.servers import Place as FaultPlace
from benchmarks.faults.servers import names, reached
from benchmarks.faults.tally import Tally
from matrix.engines.engine import Place, Variant
from matrix.engines.environments import python_for
from pasture_tools.launch.session import Group, environment

PROGRAMS = Path(__file__).resolve().parents[2] / "matrix" / "engines" / "programs"
START_S = 300.0
BACK_S = 45.0
STOP_S = 60.0
GONE_S = 25.0
SETTLE_S = 60.0
NEAR_S = 2.0
"""A job that is put so shortly before a fault is as likely to be its loss as one put after it."""

TERM = "TERM"
KILL = "kill the main process"
ENDING = (KILL, TERM)
RELOAD = "reload"
FAULTS: Mapping[str, Callable[[Scene], None]] = {
    "kill a process": fault_kinds.kill("worker"),
    "kill all below it": fault_kinds.kill_all_workers,
    "stop a process": fault_kinds.stop("worker"),
    "stop the main process": fault_kinds.stop("master"),
    "fill the disk": fault_kinds.fill_disk,
    "no descriptors in a process": fault_kinds.no_descriptors("worker"),
    "no descriptors in the main process": fault_kinds.no_descriptors("master"),
}


def plan(kind: Kind, chance: random.Random) -> Iterator[str]:
    """All faults of an engine in an order of chance, then again in another."""
    while True:
        faults = [*FAULTS, *ENDING, *([] if kind.reload is None else [RELOAD])]
        chance.shuffle(faults)
        yield from faults


class Life(Group):
    """One life of an engine."""

    def pids(self, role: str) -> list[int]:
        """Of `master`, the process that was started, or `worker`, any other."""
        if role == "master":
            return [self.pid] if self.exit_code() is None else []
        return [pid for pid in self.members() if pid != self.pid]


class Run:
    """One engine in one variant."""

    def __init__(
        self,
        kind: Kind,
        variant: Variant,
        place: FaultPlace,
        start: Start,
        chance: random.Random,
        tally: Tally,
    ) -> None:
        self.kind, self.place, self._start = kind, place, start
        self._chance, self.tally = chance, tally
        self._env = _environment(kind, place, start)
        self._done = Done(place.state / "done")
        self._faults: list[tuple[float, str]] = []
        self._lives = 0
        self.life = self._begin()
        self._client: Client | None = None
        if kind.client:
            env = {**self._env, **(kind.sealed_client if variant == "sealed" else {})}
            self._client = Client(start.place.python, kind.client, env, place.directory)
            self.load: Jobs | Asked = Jobs(self._client, self._done)
        else:
            self.load = Asked(start.port, self._done)

    def _begin(self) -> Life:
        self._lives += 1
        log = self.place.directory / f"log-{self._start.variant}-{self._lives}"
        return Life(self.kind.command(self._start), log=log, env=self._env, cwd=self.place.small)

    def wait_until_it_works(self) -> None:
        """Raises: ServerFailed: it does not."""
        began = time.monotonic()
        if not reached(lambda: self._works(began), START_S):
            raise self.life.failure(f"{self.kind.name} does not work")

    def _works(self, since: float) -> bool:
        return self.load.done_since(since) >= 3

    def do(self, fault: str) -> None:
        """One fault, and the way back."""
        self._faults.append((time.monotonic(), fault))
        try:
            self._carry_out(fault)
        except Impossible:
            self.tally.left_out[fault] += 1
            return
        self.tally.faults[fault] += 1
        over = time.monotonic()
        if fault in ENDING:
            self._end(fault)
            self.life = self._begin()
        back = reached(lambda: self._works(over) or not self.life.pids("master"), BACK_S)
        if not self.life.pids("master"):
            self.tally.ended[fault] += 1
            self._end(fault)
            self.life = self._begin()
            back = reached(lambda: self._works(over), BACK_S)
        took = round(time.monotonic() - over, 2)
        self.tally.slowest_s[fault] = max(took, self.tally.slowest_s.get(fault, 0.0))
        if not back:
            self.tally.not_back[fault] += 1
            self.life.end(polite_s=0)
            self.life = self._begin()

    def _carry_out(self, fault: str) -> None:
        if fault == KILL:
            self.life.kill()
            self.life.exit_code(STOP_S)
        elif fault == TERM:
            self._stop(fault)
        elif fault == RELOAD:
            assert self.kind.reload is not None
            self.life.send_signal(self.kind.reload)
            time.sleep(self._chance.uniform(*fault_kinds.SHORT_S))
        else:
            FAULTS[fault](Scene(self.life, self.place, self._chance))

    def _stop(self, fault: str) -> None:
        self.life.terminate()
        if self.life.exit_code(STOP_S) is None:
            self.tally.not_back[fault] += 1
            self.life.kill()

    def _end(self, fault: str) -> None:
        """Of a life whose main process is gone: nothing may be left."""
        if not reached(lambda: not self.life.members(), GONE_S):
            self.tally.left += [f"{fault}: {line}" for line in names(self.life.members())]
        self.life.end(polite_s=0)

    def finish(self) -> None:
        """Wait for what is under way, stop the engine, and count."""
        self.load.stop()
        self.load.settle(SETTLE_S)
        self._faults.append((time.monotonic(), TERM))
        self._stop(TERM)
        self._end(TERM)
        self.load.settle(0)
        self._count()

    def _count(self) -> None:
        times = self._done.times
        self.tally.done = len(times)
        self.tally.refused = len(self.load.refused)
        put = self.load.put if isinstance(self.load, Jobs) else {}
        lost = self.load.lost()
        self.tally.put = len(put) or self.load.answered + len(lost)
        for number, began in lost.items():
            self.tally.lost[self._fault_at(began)] += 1
            why = self.load.why.get(number, "never done")
            self.tally.examples.append(f"{number} after {self._fault_at(began)}: {why}")
        for number, count in times.items():
            if count > 1:
                self.tally.twice[self._fault_at(put.get(number, 0.0))] += 1

    def _fault_at(self, moment: float) -> str:
        before = [name for began, name in self._faults if began <= moment + NEAR_S]
        return before[-1] if before else "the start"

    def close(self) -> None:
        """End all of it."""
        self.load.stop()
        if self._client is not None:
            self._client.close()
        self.life.end(polite_s=0)


def _environment(kind: Kind, place: FaultPlace, start: Start) -> dict[str, str]:
    small = str(place.small)
    path = f"{start.place.python.parent}{os.pathsep}{os.environ['PATH']}"
    own = {"HOME": small, "TMPDIR": small, "FAULT_STATE": str(place.state), "PATH": path}
    own |= {"PYTHONPATH": f"{PROGRAMS}{os.pathsep}{TEST_PROGRAMS}", "QUEUE_URL": start.url}
    return environment({**kind.variables(start.place), **own})


@contextlib.contextmanager
def running(
    kind: Kind, variant: Variant, folder: Path, chance: random.Random, tally: Tally
) -> Iterator[Run]:
    """An engine with all that it needs, which works; all of it has ended after the block."""
    python = python_for(kind.packages)
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(FaultPlace(folder, kind.small_size))
        other = folder / "other"
        other.mkdir(exist_ok=True)
        engine = Place(python, other)
        url, port = stack.enter_context(served(kind, engine))
        run = Run(
            kind, variant, place, Start(engine, variant, url, port, place.small), chance, tally
        )
        stack.callback(run.close)
        run.wait_until_it_works()
        yield run
