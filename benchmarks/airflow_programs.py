"""Airflow's scheduler, DAG processor, triggerer and API server: by python, and out of one image.

All on SQLite and loopback, with two tasks at work that wait. Figures are sums of PSS over all
processes of a program, the mean of some samples. examples/programs/airflow.md is a recipe.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.airflow_scheduler import settings_of
from benchmarks.site_programs import Sampled
from matrix.engines.environments import python_for
from matrix.environments import uv
from pasture_tools.launch.ports import LOOPBACK, free_port, listens
from pasture_tools.launch.session import Group, environment

TASKS = 2
TIMEOUT_S = 600.0
PRELOAD = (
    *("airflow.__main__", "airflow.cli.cli_parser", "airflow.cli.commands.scheduler_command"),
    *("airflow.cli.commands.dag_processor_command", "airflow.cli.commands.triggerer_command"),
    *("airflow.cli.commands.api_server_command", "airflow.jobs.scheduler_job_runner"),
    *("airflow.jobs.triggerer_job_runner", "airflow.jobs.dag_processor_job_runner"),
    *("airflow.dag_processing.manager", "airflow.dag_processing.processor"),
    *("airflow.executors.local_executor", "airflow.sdk.execution_time.supervisor"),
    *("airflow.sdk.execution_time.task_runner", "airflow.api_fastapi.main", "uvicorn.main"),
    *("uvicorn.protocols.http.auto", "uvicorn.protocols.websockets.auto"),
    *("uvicorn.lifespan.on", "uvicorn.loops.auto"),
)
REHEARSAL = """\
from airflow.api_fastapi.main import app
from airflow.cli.cli_parser import get_parser
from airflow.providers_manager import ProvidersManager
from fastapi.testclient import TestClient
get_parser().parse_args(["scheduler"])
with TestClient(app) as client:
    for path in ("/api/v2/monitor/health", "/api/v2/dags", "/execution/health"):
        client.get(path)
ProvidersManager().initialize_providers_hooks()
"""
LOCAL_SETTINGS = """\
import multiprocessing, sys
from pathlib import Path
multiprocessing.set_executable(str(Path(sys.executable).with_name("pasture-python")))
"""
"""Has the executor's forkserver start out of the image, too."""


class Airflow:
    """One home with an empty, migrated database, which each way starts with."""

    def __init__(self, python: Path, home: Path) -> None:
        self._bin, self._home, self._port = python.parent, home, free_port()
        self._marks, self._image = home / "marks", home / "airflow.img"
        self._marks.mkdir()
        settings = settings_of(home, self._port, TASKS, self._marks)
        own = {"HOME": str(home), "LANG": "C.UTF-8", "_AIRFLOW_PROCESS_CONTEXT": "server"}
        every = environment({**settings, **own})
        # Airflow goes through all variables: out of an image its programs need those of the build.
        self._environ = {name: every[name] for name in ("PATH", *settings, *own)}
        self._run("airflow", "db", "migrate")
        shutil.copy(home / "airflow.db", home / "migrated.db")

    def build(self) -> None:
        """Make the image."""
        rehearsal = self._home / "rehearsal.py"
        rehearsal.write_text(REHEARSAL)
        named = [f"--env={name}" for name in self._environ if name not in ("HOME", "LANG")]
        recipe = f"{self._image}.recipe"
        words = ("-o", str(self._image), f"--rehearse={rehearsal}", *named, recipe)
        preload = f"--preload={','.join(PRELOAD)}"
        (self._home / "config").mkdir()
        (self._home / "config" / "airflow_local_settings.py").write_text(LOCAL_SETTINGS)
        image, python = ("-m", "pasture", "image"), str(self._bin / "python")
        self._run("python", *image, "recipe", "-o", recipe, "--", python, str(rehearsal))
        self._run("python", *image, "build", preload, *words)

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._bin / program), *words]
        done = subprocess.run(
            command, env=self._environ, cwd=self._home, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise click.ClickException(f"{program} failed: {done.stderr[-2000:]}")

    def measure(self, way: str, seconds: float) -> tuple[Sampled, float]:
        """PSS of the programs, and seconds until the API server listens.

        Raises:
            ServerFailed: a program ends, or the tasks do not run.
        """
        shutil.copy(self._home / "migrated.db", self._home / "airflow.db")
        for mark in self._marks.iterdir():
            mark.unlink()
        programs = self._programs()
        with ExitStack() as stack:
            began = time.monotonic()
            groups = {
                name: stack.enter_context(self._start(way, name, *words))
                for name, words in programs.items()
            }
            server = groups["api-server"]
            server.wait_for(lambda: listens(self._port), "no API server", timeout_s=TIMEOUT_S)
            listened_s = time.monotonic() - began
            server.wait_for(
                lambda: len(list(self._marks.iterdir())) >= TASKS,
                "the tasks do not run",
                timeout_s=TIMEOUT_S,
            )
            sampled = Sampled()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                sampled.sample({name: group.pid for name, group in groups.items()})
                time.sleep(1)
            for group in groups.values():
                if group.exit_code() is not None:
                    raise group.failure("it has ended")
                if way == "image" and "started from the image" not in group.log:
                    raise group.failure("python runs it")
            (self._marks / "go").touch()
            for group in groups.values():
                group.terminate()
            for group in groups.values():
                group.wait(TIMEOUT_S)
        return sampled, listened_s

    def _programs(self) -> dict[str, tuple[str, ...]]:
        listen = ("--host", LOOPBACK, "--port", str(self._port), "--workers", "1")
        no_logs = ("--skip-serve-logs",)
        return {
            "api-server": listen, "dag-processor": (), "triggerer": no_logs, "scheduler": no_logs
        }  # fmt: skip

    def _start(self, way: str, name: str, *words: str) -> Group:
        own: dict[str, str] = {}
        if way == "image":
            own = {"PASTURE_IMAGE": str(self._image), "PASTURE": "seal"}
            own |= {"PASTURE_IMAGE_VERBOSE": "1"}
        python = self._bin / ("pasture-python" if way == "image" else "python")
        return Group(
            [str(python), str(self._bin / "airflow"), name, *words],
            log=self._home / f"{way}-{name}.log",
            env={**self._environ, **own},
            cwd=self._home,
        )


@click.command()
@click.option("--seconds", default=30.0, show_default=True, help="Of sampling, each way.")
@click.option("--rounds", default=2, show_default=True)
def main(seconds: float, rounds: int) -> None:
    """PSS of Airflow's four programs by python and out of one image."""
    ratios = []
    python = python_for("airflow")
    uv("pip", "install", "--quiet", "--python", python, "-e", "packages/image")
    with TemporaryDirectory(prefix="airflow-") as name:
        airflow = Airflow(python, Path(name))
        airflow.build()
        for _ in range(rounds):
            totals = {}
            for way in ("python", "image"):
                found, listened_s = airflow.measure(way, seconds)
                totals[way] = statistics.mean(found.totals)
                each = ", ".join(
                    f"{one} {statistics.mean(sizes) / 1e6:.0f}" for one, sizes in found.of.items()
                )
                size = f"{totals[way] / 1e6:6.0f} MB"
                click.echo(f"{way:8} PSS {size}, listens after {listened_s:4.1f} s: {each}")
            ratios.append(totals["image"] / totals["python"])
    shown = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    click.echo(f"image to python: {shown}; load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
