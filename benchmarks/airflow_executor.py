"""Workers of Airflow's LocalExecutor: how they are started, and what they cost.

Owns the environments that are compared. Each is one that a user can give to `airflow scheduler`.
The program that is measured does what the scheduler does with its executor, without a database; a
worker has imported what its first task does.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from matrix.engines.engine import memory_of
from matrix.engines.environments import python_for
from pasture_tools.launch.session import environment

METHOD = "AIRFLOW__CORE__MP_START_METHOD"
PRELOAD = "AIRFLOW__CORE__MP_FORKSERVER_PRELOAD"
THEIR_PRELOAD = "airflow,airflow.executors.local_executor"
FIRST_TASK = "airflow.sdk.execution_time.supervisor,airflow.sdk.execution_time.task_runner"
WAYS: Mapping[str, Mapping[str, str]] = {
    "fork": {METHOD: "fork"},
    "forkserver": {},
    "preloaded": {METHOD: "forkserver", PRELOAD: THEIR_PRELOAD},
    "sealed": {
        METHOD: "forkserver",
        PRELOAD: f"{THEIR_PRELOAD},{FIRST_TASK},pasture.servers.forkserver",
    },
}
"""fork is Airflow's own before Python 3.14, with gc.freeze(); forkserver its own from then on."""

PROGRAM = Path(__file__).parents[1] / "matrix" / "engines" / "programs" / "airflow_executor.py"
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Measured:
    """One start.

    Attributes:
        private_bytes: of a worker, the mean.
        pss_bytes: of the workers and all other processes but the parent's.
        all_pss_bytes: the parent's, too.
    """

    private_bytes: float
    pss_bytes: float
    all_pss_bytes: float


def measure(way: str, workers: int, python: Path, folder: Path) -> Measured:
    """Start an executor with the given workers, and end it.

    Raises:
        click.ClickException: it does not start, or does not end well.
    """
    variables = {"AIRFLOW_HOME": str(folder), **WAYS[way]}
    started = subprocess.Popen(
        [python, PROGRAM, str(workers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(variables),
        cwd=folder,
    )
    with started as program:
        assert program.stdout is not None
        lines = iter(program.stdout.readline, "")
        said = next((line for line in lines if line.startswith("{")), None)
        if said is None:
            raise click.ClickException(f"{way}: it ended with {program.wait(TIMEOUT_S)}")
        pids = json.loads(said)["pids"]
        others = [one.pid for one in psutil.Process(program.pid).children(recursive=True)]
        private, pss = memory_of(pids, others=set(others) - set(pids))
        _, parent = memory_of([program.pid])
        program.communicate(timeout=TIMEOUT_S)
    if program.returncode != 0 or any(psutil.pid_exists(pid) for pid in pids):
        raise click.ClickException(f"{way}: it did not end well: {program.returncode}")
    return Measured(private, pss, pss + parent)


@click.command()
@click.option("--workers", default=8, show_default=True)
@click.argument("ways", nargs=-1)
def main(workers: int, ways: tuple[str, ...]) -> None:
    """Compare ways to start the workers of Airflow's LocalExecutor."""
    python = python_for("airflow")
    title = f"{workers} workers of the LocalExecutor, CPython {platform.python_version()}, MB"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("", "private each", "PSS of the children", "with the parent", "to fork"):
        table.add_column(heading, justify="right" if heading else "left")
    first = 0.0
    for way in ways or WAYS:
        with TemporaryDirectory() as folder:
            found = measure(way, workers, python, Path(folder))
        click.echo(f"{way}: {found}", err=True)
        first = first or found.all_pss_bytes
        cells = (found.private_bytes, found.pss_bytes, found.all_pss_bytes)
        ratio = f"{found.all_pss_bytes / first - 1:+.0%}"
        table.add_row(way, *(f"{value / 1e6:.1f}" for value in cells), ratio)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
