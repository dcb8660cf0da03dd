"""A real scheduler of Airflow with its LocalExecutor, tasks at work: what the workers cost.

Each way has a deployment of its own on SQLite and loopback: API server, DAG processor, scheduler.
The tasks of one DAG run at the same time, one a worker, and wait while memory is read. Only the
scheduler's environment differs.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.airflow_executor import WAYS
from matrix.engines.engine import memory_of
from matrix.engines.environments import python_for
from pasture_tools.launch.ports import LOOPBACK, free_port, listens
from pasture_tools.launch.session import Group, environment

DAGS = Path(__file__).parents[1] / "matrix" / "engines" / "programs" / "airflow_dags"
TIMEOUT_S = 900.0
SECRET = "of no use to anybody: all of it is on loopback, and ends with the benchmark"


@dataclass(frozen=True, slots=True)
class Measured:
    """One deployment with all tasks at work.

    Attributes:
        worker_bytes: private memory of a worker of the executor, the mean.
        task_bytes: private memory of a task's process, the mean.
        pss_bytes: of the scheduler and all below it.
        until_all_s: from the start of the scheduler until all tasks ran.
    """

    worker_bytes: float
    task_bytes: float
    pss_bytes: float
    until_all_s: float


class Deployment:
    """What all components of one Airflow share: its settings, and a database that is ready.

    Args:
        migrated: folder with such a database, which is copied.
    """

    def __init__(self, python: Path, folder: Path, tasks: int, migrated: Path | None) -> None:
        self._airflow = str(python.with_name("airflow"))
        self.folder, self.marks = folder, folder / "tasks"
        self.marks.mkdir(parents=True)
        self.port = free_port()
        self._settings = settings_of(folder, self.port, tasks, self.marks)
        if migrated is None:
            done = subprocess.run(
                [self._airflow, "db", "migrate"],
                env=environment(self._settings), cwd=folder, capture_output=True, text=True,
                timeout=TIMEOUT_S,
            )  # fmt: skip
            if done.returncode != 0:
                raise click.ClickException(f"no database: {done.stderr[-2000:]}")
        else:
            shutil.copy(migrated / "airflow.db", folder / "airflow.db")

    def start(self, *words: str, **variables: str) -> Group:
        """A component, with these variables more."""
        env = environment({**self._settings, **variables})
        log = self.folder / f"{words[0]}.log"
        return Group([self._airflow, *words], log=log, env=env, cwd=self.folder)


def settings_of(folder: Path, port: int, tasks: int, marks: Path) -> dict[str, str]:
    """The environment of all components."""
    return {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": str(tasks),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{LOOPBACK}:{port}/execution/",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__API_AUTH__JWT_SECRET": SECRET,
        "AIRFLOW__API__SECRET_KEY": SECRET,
        "TOGETHER_FOLDER": str(marks),
        "TOGETHER_TASKS": str(tasks),
    }


@contextlib.contextmanager
def served(deployment: Deployment) -> Iterator[None]:
    """API server and DAG processor, while the block runs."""
    words = ("api-server", "--host", LOOPBACK, "--port", str(deployment.port), "--workers", "1")
    with deployment.start(*words) as server, deployment.start("dag-processor"):
        server.wait_for(lambda: listens(deployment.port), "no API server", timeout_s=TIMEOUT_S)
        yield


def measure(deployment: Deployment, variables: Mapping[str, str], tasks: int) -> Measured:
    """Have all tasks run at once, read memory, and let them end.

    Raises:
        ServerFailed: they do not run, or the scheduler ends.
    """
    marks = deployment.marks
    with served(deployment):
        began = time.monotonic()
        with deployment.start("scheduler", "--skip-serve-logs", **variables) as scheduler:
            scheduler.wait_for(
                lambda: len(list(marks.iterdir())) >= tasks,
                f"not all of {tasks} tasks run",
                timeout_s=TIMEOUT_S,
            )
            until_all_s = time.monotonic() - began
            running = {int(mark.name): int(mark.read_text()) for mark in marks.iterdir()}
            below = {p.pid for p in psutil.Process(scheduler.pid).children(recursive=True)}
            below.add(scheduler.pid)
            workers = sorted(set(running.values()))
            worker_bytes, pss = memory_of(workers, others=below - set(workers))
            task_bytes, _ = memory_of(sorted(running))
            (marks / "go").touch()
            scheduler.wait_for(
                lambda: not any(map(psutil.pid_exists, running)),
                "the tasks did not end",
                timeout_s=TIMEOUT_S,
            )
            scheduler.terminate()
            scheduler.wait(TIMEOUT_S)
    return Measured(worker_bytes, task_bytes, pss, until_all_s)


@click.command()
@click.option("--tasks", default=8, show_default=True)
@click.argument("ways", nargs=-1)
def main(tasks: int, ways: tuple[str, ...]) -> None:
    """Compare ways to start the workers of a real scheduler's LocalExecutor."""
    python = python_for("airflow")
    title = f"{tasks} tasks of a scheduler, CPython {platform.python_version()}, MB"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("", "private: worker", "task", "PSS with the scheduler", "until all run, s"):
        table.add_column(heading, justify="right" if heading else "left")
    with TemporaryDirectory() as name:
        migrated: Path | None = None
        for way in ways or ("fork", "forkserver", "sealed"):
            deployment = Deployment(python, Path(name, way), tasks, migrated)
            if migrated is None:
                migrated = Path(name, "migrated")
                migrated.mkdir()
                shutil.copy(deployment.folder / "airflow.db", migrated)
            found = measure(deployment, WAYS[way], tasks)
            click.echo(f"{way}: {found}", err=True)
            sizes = (found.worker_bytes, found.task_bytes, found.pss_bytes)
            cells = (*(f"{size / 1e6:.1f}" for size in sizes), f"{found.until_all_s:.0f}")
            table.add_row(way, *cells)
    Console(width=100).print(table)
    click.echo(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
