"""Workers of queues under measurement: how they are started, and how jobs are put to them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pasture.trial.session import Group, environment

PROGRAMS = Path(__file__).with_name("programs")
PATIENCE_S = 300


def start(command: Sequence[str], folder: Path, **variables: str) -> Group:
    """A worker with the programs on its path, and so many variables more.

    Args:
        command: begins with a program of the environment that it is for, which comes first in PATH:
            dramatiq looks for `python` there when it reloads.
    """
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"
    added = {"PYTHONPATH": str(PROGRAMS), "PATH": path, **variables}
    return Group(command, log=folder / "worker.log", env=environment(added), cwd=folder)


def put(python: Path, client: str, *arguments: str) -> list[dict[str, Any]]:
    """Have a client put jobs; what each of them returned.

    Raises:
        subprocess.SubprocessError: a result is missing.
    """
    done = subprocess.run(
        [python, PROGRAMS / f"{client}.py", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PATIENCE_S,
        env=environment({"PYTHONPATH": str(PROGRAMS)}),
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def put_until_all_work(
    python: Path, client: str, url: str, workers: int, least: int = 3
) -> tuple[list[int], float]:
    """Put jobs until each worker has done some: the workers' pids, and the jobs a second.

    Args:
        least: how many jobs each of them has done at least.

    Raises:
        click.ClickException: it takes too long.
    """
    counts: dict[int, int] = {}
    began, done = time.monotonic(), 0
    while len(counts) < workers or min(counts.values()) < least:
        if time.monotonic() - began > PATIENCE_S:
            raise click.ClickException(f"workers were asked unevenly: {counts}")
        for job in put(python, client, url, str(10 * workers)):
            counts[job["pid"]] = counts.get(job["pid"], 0) + 1
            done += 1
    return sorted(counts), done / (time.monotonic() - began)
