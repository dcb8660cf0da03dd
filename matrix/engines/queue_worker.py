"""Workers of queues under measurement: how they are started, and how jobs are put to them."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pasture_tools.launch.session import Group, environment

PROGRAMS = Path(__file__).with_name("programs")
TIMEOUT_S = 300


def start(command: Sequence[str], folder: Path, **variables: str) -> Group:
    """A worker with the programs on its path, and these variables more.

    Args:
        command: begins with a program of the environment that it is for, which comes first in PATH:
            dramatiq looks for `python` there when it reloads.
    """
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"
    added = {"PYTHONPATH": str(PROGRAMS), "PATH": path, **variables}
    return Group(command, log=folder / "worker.log", env=environment(added), cwd=folder)


@dataclass(frozen=True, slots=True)
class Results:
    """Of one client.

    Attributes:
        jobs: what each of them returned, in the order of the client.
        seconds: from the first result to the last: without the client's own start.
    """

    jobs: list[dict[str, Any]]
    seconds: float

    @property
    def jobs_a_second(self) -> float:
        """0 where there is but one job."""
        return (len(self.jobs) - 1) / self.seconds if self.seconds else 0.0


def put(python: Path, client: str, *arguments: str) -> list[dict[str, Any]]:
    """Have a client put jobs; what each of them returned.

    Raises:
        subprocess.SubprocessError: a result is missing.
    """
    return put_and_time(python, client, *arguments).jobs


def put_and_time(python: Path, client: str, *arguments: str) -> Results:
    """The same, with the time that the results took.

    Raises:
        subprocess.SubprocessError: a result is missing.
    """
    command = [str(python), str(PROGRAMS / f"{client}.py"), *arguments]
    env = environment({"PYTHONPATH": str(PROGRAMS)})
    jobs: list[dict[str, Any]] = []
    times: list[float] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        timer = threading.Timer(TIMEOUT_S, process.kill)
        timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            jobs.append(json.loads(line))
            times.append(time.monotonic())
        timer.cancel()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Results(jobs, times[-1] - times[0] if times else 0.0)


def put_until_all_work(
    python: Path, client: str, url: str, workers: int, least: int = 3
) -> tuple[list[int], float]:
    """Put jobs until each worker has done some: the workers' pids, and the jobs a second.

    The rate is that of the best batch: the first finds workers that have loaded nothing yet.

    Args:
        least: how many jobs each of them has done at least.

    Raises:
        click.ClickException: it takes too long.
    """
    counts: dict[int, int] = {}
    rates: list[float] = []
    began = time.monotonic()
    while len(counts) < workers or min(counts.values()) < least:
        if time.monotonic() - began > TIMEOUT_S:
            raise click.ClickException(f"workers were asked unevenly: {counts}")
        found = put_and_time(python, client, url, str(10 * workers))
        rates.append(found.jobs_a_second)
        for job in found.jobs:
            counts[job["pid"]] = counts.get(job["pid"], 0) + 1
    return sorted(counts), max(rates)
