"""Faults under load, one after the other: nothing orphaned, lost or forgotten.

A server under a steady load whose every request is accounted for gets a fault every ten seconds
(`benchmarks.faults.kinds`). After each it has to serve again at full strength. Only what a killed
or starved process served may be lost. An exporter next to it is scraped every second: no total
may fall. When the master is killed or stopped, no process may be left and nothing of it on its
disk; then another server is started, in turn with no `/proc` and a read-only root.

What was found is written to `var/faults/SERVER/result.json` after each fault.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from benchmarks.faults.growth import Growth
from benchmarks.faults.kinds import FAULTS, KILL_MASTER, Excuse, Impossible, Scene
from benchmarks.faults.load import PAUSE_S, SCRAPE_S, Load, Programs, Requests, Scraper, Tasks
from benchmarks.faults.servers import (
    CELERY,
    SERVED_IMAGE,
    SURROUNDINGS,
    WORKERS,
    Place,
    Server,
    names,
    reached,
)
from matrix.redis_server import Redis

DIRECTORY = Path(__file__).resolve().parent.parent / "var" / "faults"
START_S = 60.0
BACK_S, CELERY_BACK_S = 45.0, 120.0
"""Until it serves again. A HUP of plain Celery took 43 s on a machine under heavy load."""

GONE_S = 25.0
LEFT_ON_DISK = (".gunicorn", ".cache", "gunicorn.ctl", "pymp-")
"""How names of what servers themselves leave begin. The last is Celery's, once killed."""


class Broken(click.ClickException):
    """Something that must hold did not."""


class Record:
    """What was done, and its outcome."""

    def __init__(self, path: Path, server: str, seed: int) -> None:
        self._path, self._began = path, time.monotonic()
        self.faults, self.slowest = Counter[str](), dict[str, float]()
        self.violations: list[dict[str, Any]] = []
        self.excused: list[str] = []
        self.without_server, self.scrapes = 0, 0
        self.lives, self.left_out = Counter[str](), Counter[str]()
        self._fixed = {"server": server, "seed": seed}

    def violated(self, fault: str, what: str, log: str = "") -> None:
        at = round(time.monotonic() - self._began, 1)
        self.violations.append({"at_s": at, "fault": fault, "what": what, "log": log[-3000:]})
        click.echo(f"VIOLATION after {fault} at {at} s: {what}", err=True)

    def write(self, load: Load, programs: Load | None) -> None:
        document = self._fixed | {
            "seconds": round(time.monotonic() - self._began, 1),
            "faults": dict(self.faults),
            "left_out": dict(self.left_out),
            "slowest_recovery_s": self.slowest,
            "answered": load.answered,
            "programs": 0 if programs is None else programs.answered,
            "lost_with_an_excuse": len(self.excused),
            "refused_without_a_server": self.without_server,
            "scrapes": self.scrapes,
            "lives": dict(self.lives),
            "violations": self.violations,
            "latest_excused": self.excused[-100:],
        }
        self._path.write_text(json.dumps(document, indent=1) + "\n")


class Run:
    """One kind of server, over all its lives."""

    def __init__(
        self,
        kind: str,
        place: Place,
        broker: Redis | None,
        chance: random.Random,
        record: Record,
        slower: float,
    ) -> None:
        self.kind, self.place, self.broker = kind, place, broker
        self.chance, self.record, self.slower = chance, record, slower
        self.excuses: list[Excuse] = []
        self.load: Load | None = None
        self.programs: Programs | None = None
        self.starts = 0

    def start(self) -> None:
        """Another life of the server, in the next surroundings."""
        possible = SURROUNDINGS if self.place.mounted else SURROUNDINGS[:1]
        surroundings = possible[self.starts % len(possible)]
        self.starts += 1
        self.growth = Growth(self.place.directory / "sizes.jsonl")
        broker = "" if self.broker is None else self.broker.url
        self.server = Server(self.kind, self.place, surroundings, broker)
        self.record.lives[surroundings] += 1
        reached(lambda: self.server.listens() or not self.server.pids("master"), START_S)
        if not self.server.listens():
            raise Broken(f"{self.kind} ({surroundings}) does not start\n{self.server.log[-3000:]}")
        self.scraper = Scraper(self.server.pid, SCRAPE_S * self.slower)
        pause_s = PAUSE_S * self.slower
        if self.load is None and self.kind in CELERY:
            self.load = Tasks(broker, pause_s)
        elif self.load is None:
            self.load = Requests(self.server.port, pause_s)
            if self.kind == "gunicorn-image":
                self.programs = Programs(self.place.images / SERVED_IMAGE, pause_s * 10)
        elif isinstance(self.load, Requests):
            self.load.port = self.server.port
        began = time.monotonic()
        if not reached(lambda: self.is_back(began), START_S):
            raise Broken(f"{self.kind} ({surroundings}) does not answer\n{self.server.log[-3000:]}")

    def end(self, fault: str) -> None:
        """What is left of a server whose master is gone, which must be nothing."""
        if not reached(lambda: not self.server.members(), GONE_S):
            left = self.server.members()
            self.record.violated(fault, f"left behind: {names(left)}", self.server.log)
        self.record.scrapes += self.scraper.scrapes
        self.scraper.stop()
        self.take_falls(fault)
        self.server.end(polite_s=0)

    def take_falls(self, fault: str) -> None:
        while self.scraper.falls:
            self.record.violated(fault, f"a total fell: {self.scraper.falls.pop()}")

    def do(self, fault: str) -> None:
        """One fault, and the way back."""
        assert self.load is not None
        if fault == KILL_MASTER:
            self.kill_master()
        else:
            ports = self.server.port, self.scraper.port
            scene = Scene(self.server, self.place, self.chance, *ports, self.excuses)
            if self.broker is not None:
                scene.restart_broker = self.broker.restart
            try:
                if wrong := FAULTS[self.kind][fault](scene):
                    self.record.violated(fault, wrong, self.server.log)
            except Impossible:
                self.record.left_out[fault] += 1
                return
        over = time.monotonic()
        back_s = CELERY_BACK_S if self.kind in CELERY else BACK_S
        if not reached(lambda: self.is_back(over), back_s):
            self.record.violated(fault, self.what_is_missing(over), self.server.log)
        took = round(time.monotonic() - over, 2)
        self.record.faults[fault] += 1
        self.record.slowest[fault] = max(took, self.record.slowest.get(fault, 0.0))
        self.take_falls(fault)
        self.judge(fault)
        if not self.server.pids("master"):
            status = self.server.exit_code()
            self.record.violated(fault, f"the master has ended: {status}", self.server.log)
            self.end(fault)
            self.start()
        pids = {role: self.server.pids(role) for role in ("master", "mold", "worker")}
        self.growth.note(pids | {"exporter": [self.scraper.process.pid]}, self.load.answered)

    def kill_master(self) -> None:
        """Requests may be lost until the next one listens."""
        excuse = Excuse(set(), time.monotonic(), float("inf"), 0, everyone=True)
        self.excuses.append(excuse)
        self.server.kill()
        self.server.wait()
        self.end(KILL_MASTER)
        self.start()
        excuse.until = time.monotonic()

    def is_back(self, since: float) -> bool:
        """Full strength, and each client has an answer that it asked for after a fault."""
        assert self.load is not None
        if not self.server.pids("master"):
            return True  # as good as it gets
        asked = sum(began > since for began in self.load.latest.copy())
        return asked >= 3 and len(self.server.pids("worker")) >= WORKERS

    def what_is_missing(self, since: float) -> str:
        assert self.load is not None
        asked = sum(began > since for began in self.load.latest.copy())
        return f"not back: {asked} answers, workers {names(self.server.pids('worker'))}"

    def judge(self, fault: str) -> None:
        """Look for an excuse for each loss."""
        assert self.load is not None
        started = self.place.started() if self.load.losses else {}
        while self.load.losses:
            loss = self.load.losses.popleft()
            pid = started.get(loss.number)
            excuse = next((e for e in self.excuses if e.covers(loss, pid)), None)
            if excuse is not None and excuse.everyone:
                self.record.without_server += 1
            elif excuse is not None:
                self.record.excused.append(f"{fault}: {loss}, {whose(pid)}")
            else:
                self.record.violated(fault, f"lost: {loss}, {whose(pid)}", self.server.log)
        now = time.monotonic()
        while self.programs is not None and self.programs.losses:
            self.record.violated(fault, f"a program: {self.programs.losses.popleft()}")
        self.excuses = [excuse for excuse in self.excuses if excuse.until > now - 180]

    def finish(self) -> None:
        """TERM: the server's own end, which loses nothing but what cannot connect any more."""
        assert self.load is not None
        self.load.stop()
        if self.programs is not None:
            self.programs.stop()
        status = self.server.stop()
        if status != 0:
            self.record.violated("TERM", f"status {status}", self.server.log)
        self.end("TERM")
        self.judge("TERM")
        files = sorted(path.name for path in self.place.small.iterdir())
        left = [name for name in files if not name.startswith(LEFT_ON_DISK)]
        if left:
            self.record.violated("TERM", f"left on its disk: {left}")


def whose(pid: int | None) -> str:
    return "no process had started it" if pid is None else f"{pid} served it"


def plan(kind: str, chance: random.Random, spare_master: bool) -> Iterator[str]:
    """All faults of a server in an order of chance, then again in another."""
    while True:
        faults = [*FAULTS[kind], *([] if spare_master else [KILL_MASTER])]
        chance.shuffle(faults)
        yield from faults


def _broker(stack: contextlib.ExitStack, directory: Path) -> Redis:
    try:
        return stack.enter_context(Redis(directory))
    except subprocess.CalledProcessError:
        raise click.ClickException("Redis cannot be had") from None


@contextlib.contextmanager
def running(
    kind: str, directory: Path, chance: random.Random, record: Record, slower: float
) -> Iterator[Run]:
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(Place(directory))
        broker = _broker(stack, directory) if kind in CELERY else None
        if kind == "gunicorn-image":
            place.build_images()
        run = Run(kind, place, broker, chance, record, slower)
        try:
            run.start()
            yield run
        finally:
            if run.load is not None:
                run.scraper.stop()
            run.server.end(polite_s=0)
            for load in (run.load, run.programs):
                if load is not None:
                    load.stop()


@click.command(help=__doc__)
@click.option("--server", "kind", type=click.Choice(list(FAULTS)), default="gunicorn")
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--every", default=10.0, show_default=True, help="Seconds from fault to fault.")
@click.option("--seed", default=None, type=int, help="Of what is done when.  [default: new]")
@click.option("--fault", "faults", multiple=True, help="This one, once; may be repeated.")
@click.option("--spare-master", is_flag=True, help="One life: the master is never killed.")
@click.option("--slower", default=1.0, show_default=True, help="Load and scrapes, by this factor.")
@click.option("--directory", type=Path, default=DIRECTORY)
def main(
    kind: str,
    minutes: float,
    every: float,
    seed: int | None,
    faults: tuple[str, ...],
    spare_master: bool,
    slower: float,
    directory: Path,
) -> None:
    # What was started is ended and unmounted on a TERM too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    seed = random.randrange(10**6) if seed is None else seed
    chance = random.Random(seed)
    folder = directory / kind
    folder.mkdir(parents=True, exist_ok=True)
    record = Record(folder / "result.json", kind, seed)
    until = time.monotonic() + minutes * 60
    with running(kind, folder, chance, record, slower) as run:
        for fault in faults or plan(kind, chance, spare_master):
            began = time.monotonic()
            if began > until:
                break
            click.echo(f"{time.strftime('%H:%M:%S')} {fault}")
            run.do(fault)
            assert run.load is not None
            record.write(run.load, run.programs)
            time.sleep(max(0.0, began + every - time.monotonic()))
        run.finish()
        assert run.load is not None
        record.write(run.load, run.programs)
    if record.violations:
        raise Broken(f"{len(record.violations)} violations: {folder / 'result.json'}")
    click.echo(
        f"{kind}, seed {seed}: {record.faults.total()} faults, {run.load.answered} answers, "
        f"{len(record.excused)} lost with who served them, {record.scrapes} scrapes, no total fell"
    )


if __name__ == "__main__":
    main()
