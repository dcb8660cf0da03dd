"""`make bench-explain-size`: what it costs to explain a worker of 1 GB, and whom it disturbs.

A gunicorn under the policy `stock`, whose one worker has read and collected all that its
master built: the worst case, for every page and every object has changed. While `pasture
explain` looks at that worker, requests are sent to it one after the other. Ends with status
1 if a goal is missed. The goal is one of processor time, which depends less on what else the
machine does than time on the clock.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any

import click

from pasture.proc import tree
from pasture.proc.smaps import read_memory

PROGRAMS = Path(__file__).parent.parent / "tests" / "programs"
TIMEOUT_S = 300
CPU_GOAL_S = 10.0
MEMORY_GOAL_BYTES = 500e6
MB = 1e6


class Pinger(threading.Thread):
    """Sends requests one after the other until asked to stop.

    Attributes:
        seconds: that each answer took; an error ends the thread and is kept.
    """

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.seconds: list[float] = []
        self.error: Exception | None = None
        self._port = port
        self._stopped = threading.Event()

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                begin = perf_counter()
                get(self._port, "/")
                self.seconds.append(perf_counter() - begin)
                self._stopped.wait(0.02)
        except OSError as error:
            self.error = error

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        if self.error is not None:
            raise self.error


@dataclass(frozen=True, slots=True)
class Cost:
    """What one explanation took.

    Attributes:
        wall_s: from the start of the command to its end.
        cpu_s: user and system time of the command.
        peak_bytes: its largest resident size.
        answers_s: to the requests meanwhile, ascending.
        found: the command's document.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    answers_s: list[float]
    found: dict[str, Any]


def get(port: int, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S) as answer:
        document: dict[str, Any] = json.load(answer)
        return document


@contextmanager
def server(records: int, snapshot: Path | None, log: Path) -> Iterator[tuple[int, int, int]]:
    """A gunicorn of one worker; yields its port, its pid and the worker's."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "pasture", "run", "--policy", "stock", "gunicorn"),
        *("big_app:application", "-w", "1", "-b", f"127.0.0.1:{port}", "-t", str(TIMEOUT_S)),
    ]
    environ = {**os.environ, "BIG_RECORDS": str(records)}
    environ |= {} if snapshot is None else {"PASTURE_SNAPSHOT": str(snapshot)}
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=PROGRAMS, env=environ, stdout=output, stderr=output)
    try:
        yield port, process.pid, first_worker(process, port)
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def first_worker(process: subprocess.Popen[bytes], port: int) -> int:
    deadline = monotonic() + TIMEOUT_S
    while process.poll() is None and monotonic() < deadline:
        try:
            return int(get(port, "/read")["pid"])
        except OSError:
            sleep(0.2)
    raise click.ClickException("the server did not start")


def explained(worker: int, port: int, document: Path) -> Cost:
    """Run the command on a worker, requests being sent meanwhile."""
    pinger = Pinger(port)
    pinger.start()
    begin = perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pasture", "explain", str(worker), "--json", str(document)],
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    pinger.stop()
    if process.returncode:
        raise click.ClickException(f"pasture explain ended with status {process.returncode}")
    return Cost(
        wall_s,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * 1024,
        sorted(pinger.seconds),
        json.loads(document.read_text(encoding="utf-8")),
    )


def show(cost: Cost, resident_bytes: int) -> bool:
    """Print the figures; whether both goals were met."""
    private, pages = cost.found["private_bytes"], cost.found["os_pages"]
    click.echo(f"worker      {resident_bytes / MB:,.0f} MB resident, {private / MB:,.0f} private")
    click.echo(f"explained   {pages:,} pages, {cost.found['explained_bytes'] / MB:,.0f} MB")
    click.echo(f"processor   {cost.cpu_s:.1f} s (goal {CPU_GOAL_S:.0f})")
    click.echo(f"wall        {cost.wall_s:.1f} s; load {os.getloadavg()[0]:.1f}")
    click.echo(f"memory      {cost.peak_bytes / MB:,.0f} MB (goal {MEMORY_GOAL_BYTES / MB:,.0f})")
    answers = cost.answers_s
    median, longest = answers[len(answers) // 2] * 1e3, answers[-1] * 1e3
    click.echo(f"answers     {len(answers)} meanwhile, median {median:.1f} ms, max {longest:.0f}")
    return cost.cpu_s < CPU_GOAL_S and cost.peak_bytes < MEMORY_GOAL_BYTES


@click.command(help=__doc__)
@click.option("--records", default=2_400_000, show_default=True, help="450 bytes each.")
@click.option("--snapshot/--no-snapshot", default=False, help="Let the parent write a snapshot.")
def main(records: int, snapshot: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = folder / "snapshot" if snapshot else None
        with server(records, written, folder / "log") as (port, master, worker):
            if tree.forked_workers(master) != (worker,):
                raise click.ClickException("the server has other workers than expected")
            memory = read_memory(worker)
            resident = memory.rss_bytes if memory else 0
            met = show(explained(worker, port, folder / "found.json"), resident)
    sys.exit(not met)


if __name__ == "__main__":
    main()
