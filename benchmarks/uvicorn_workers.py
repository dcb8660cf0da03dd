"""Workers of uvicorn: spawned as uvicorn does it, forked from a parent that has loaded, sealed.

Each round starts the three one after the other, in an order that changes, and forms its ratios
within itself. All workers serve the same requests before their memory is read. The time is from
the start of the command until all workers have said that they started and a request was answered.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from matrix.spread import paired_ratio, spread_of
from pasture_tools.launch.ports import LOOPBACK, free_port
from pasture_tools.launch.session import Group, environment

PASTURE = (sys.executable, "-m", "pasture", "run")
PATHS = ("/items/0", "/items/1/5", "/items/2?limit=5", "/items/3/7", "/openapi.json")
# The application's pages need what its lifespan makes.
WARM = ("--lifespan", "warm-up", *(word for path in PATHS for word in ("--warm", path)))
VARIANTS: Mapping[str, Sequence[str]] = {
    "spawned": (sys.executable, "-m", "uvicorn"),
    "forked": (*PASTURE, "--policy", "stock", "uvicorn"),
    "sealed": (*PASTURE, *WARM, "uvicorn"),
}
TIMEOUT_S = 300.0
PRIVATE_GOAL = 0.15
START_GOAL = 0.3
APP = "benchmarks.programs.uvicorn_app:app"
STARTED = "Application startup complete."


@dataclass(frozen=True, slots=True)
class Measured:
    """One start of a server.

    Attributes:
        private_bytes: of a worker, the mean.
        pss_bytes: of the parent and all workers.
        start_s: until all workers serve.
    """

    private_bytes: float
    pss_bytes: int
    start_s: float


def uvicorn_arguments(port: int) -> list[str]:
    return [APP, "--port", str(port), "--no-access-log"]


class Served(Group):
    """A server of the application with the given workers, which answers.

    Args:
        begin: of its command line.
        arguments: the rest, for a port; the number of workers follows.
        started: each worker writes this to the log when it has started.
    """

    def __init__(
        self,
        begin: Sequence[str],
        workers: int,
        folder: Path,
        arguments: Callable[[int], Sequence[str]] = uvicorn_arguments,
        started: str = STARTED,
    ) -> None:
        self.port = free_port()
        self._workers, self._started = workers, started
        began = time.monotonic()
        super().__init__(
            [*begin, *arguments(self.port), "--workers", str(workers)],
            log=folder / f"log-{self.port}",
            env=environment({"PYTHONPATH": os.getcwd()}),  # noqa: PTH109
        )
        self.wait_for(self._all_serve, "the workers did not start", timeout_s=TIMEOUT_S)
        self.start_s = time.monotonic() - began

    def _all_serve(self) -> bool:
        return self.log.count(self._started) >= self._workers and self.get("/who") > 0

    def get(self, path: str) -> int:
        """The answer of `/who`: a pid; 1 for other pages."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=TIMEOUT_S)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        connection.close()
        if answer.status != 200:
            raise click.ClickException(f"{path}: {answer.status}")
        return body if isinstance(body, int) else 1

    def serve_all_paths(self) -> None:
        """Until each worker has served several times as many requests as there are paths."""
        counts: dict[int, int] = {}
        least = 4 * len(PATHS)
        deadline = time.monotonic() + TIMEOUT_S
        while len(counts) < self._workers or min(counts.values()) < least:
            if time.monotonic() > deadline:
                raise click.ClickException(f"workers were asked unevenly: {counts}")
            for path in PATHS:
                self.get(path)
                pid = self.get("/who")
                counts[pid] = counts.get(pid, 0) + 1

    def memory(self) -> tuple[list[int], int]:
        """Private bytes of each worker, and the PSS of all with their parent."""
        parent = psutil.Process(self.pid)
        workers = [p for p in parent.children() if "resource_tracker" not in " ".join(p.cmdline())]
        full = [process.memory_full_info() for process in workers]
        pss = sum(found.pss for found in full) + parent.memory_full_info().pss
        return [found.uss for found in full], pss


def measure(variant: str, workers: int, folder: Path) -> Measured:
    with Served(VARIANTS[variant], workers, folder) as server:
        return measured(server, workers)


def measured(server: Served, workers: int) -> Measured:
    """Have it serve all paths, read its memory, and end it as its operator does."""
    server.serve_all_paths()
    private, pss = server.memory()
    if len(private) != workers:
        raise click.ClickException(f"{len(private)} workers of {workers}")
    server.terminate()
    if server.wait(TIMEOUT_S) != 0:
        raise server.failure("it did not end well")
    return Measured(sum(private) / workers, pss, server.start_s)


def table_of(found: Mapping[str, list[Measured]]) -> Table:
    title = f"CPython {platform.python_version()}: workers of uvicorn, and ratios to spawned"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for heading in (
        "",
        "private each, MB",
        "ratio",
        "PSS of all, MB",
        "ratio",
        "start, s",
        "ratio",
    ):
        table.add_column(heading, justify="right" if heading else "left")
    for name, runs in found.items():
        cells = []
        for field, unit in (("private_bytes", 1e6), ("pss_bytes", 1e6), ("start_s", 1.0)):
            ours = [getattr(run, field) for run in runs]
            theirs = [getattr(run, field) for run in found["spawned"]]
            cells += [spread_of(ours).cell(unit), paired_ratio(ours, theirs).cell()]
        table.add_row(name, *cells)
    return table


@click.command()
@click.option("--workers", default=8, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(workers: int, rounds: int) -> None:
    """Compare uvicorn's workers: spawned, forked, sealed."""
    found: dict[str, list[Measured]] = {name: [] for name in VARIANTS}
    with TemporaryDirectory() as folder:
        for number in range(rounds):
            names = list(VARIANTS)
            for name in (*names[number % 3 :], *names[: number % 3]):
                found[name].append(measure(name, workers, Path(folder)))
                click.echo(f"round {number + 1}: {name}: {found[name][-1]}", err=True)
    Console(width=110).print(table_of(found))
    for what, field, goal in (
        ("private", "private_bytes", PRIVATE_GOAL),
        ("start", "start_s", START_GOAL),
    ):
        ours, theirs = ([getattr(r, field) for r in found[n]] for n in ("sealed", "spawned"))
        ratio = paired_ratio(ours, theirs).median
        click.echo(
            f"{what}: {ratio:.2f} of spawned, goal {goal}: {'met' if ratio <= goal else 'MISSED'}"
        )
    click.echo(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
