"""A standalone cluster of Spark on loopback: a master, two nodes, and a driver.

Owns their start and end, and which processes are Spark's Python daemons and workers. Needs a
Java on the PATH. Everything that they write lies in the folder of the start.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psutil

from matrix.engines.engine import Place
from pasture_tools.launch.ports import LOOPBACK, free_port
from pasture_tools.launch.session import Group, environment

NODES = 2
CORES_A_NODE = 4
TIMEOUT_S = 900.0
PROGRAMS = Path(__file__).with_name("programs")
SEALED_DAEMON = "pasture.servers.pyspark"
_DAEMON = re.compile(r"-m (pyspark\.daemon|pasture\.servers\.pyspark)")


class Driver(Group):
    """`programs/spark_job.py` on a cluster."""

    def __init__(self, cluster: Cluster, settings: Mapping[str, str]) -> None:
        self.folder = cluster.place.folder
        job = str(PROGRAMS / "spark_job.py")
        lines = (f"{name}={value}" for name, value in settings.items())
        super().__init__(
            [str(cluster.place.python), job, cluster.url, str(self.folder), *lines],
            log=self.folder / "driver.log",
            env=cluster.env,
        )

    def wait_until_ready(self) -> Mapping[str, Any]:
        """What it wrote of its first jobs."""
        path = self.folder / "ready.json"
        self.wait_for(path.exists, "the jobs did not end", timeout_s=TIMEOUT_S)
        found: Mapping[str, Any] = json.loads(path.read_text())
        return found

    def run_again(self) -> None:
        """Have it run all jobs once more, checked by itself."""
        self.ask_again()
        done = self.folder / "done-again"
        self.wait_for(done.exists, "the jobs did not end", timeout_s=TIMEOUT_S)
        done.unlink()

    def ask_again(self) -> None:
        """Have it begin with all jobs once more."""
        (self.folder / "again").touch()

    def finish(self) -> int:
        """Have it stop its session; its exit code."""
        (self.folder / "end").touch()
        return self.wait(TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A master and its nodes, which run.

    Attributes:
        url: of the master.
        env: for a driver.
        nodes: in whose processes the executors are found.
    """

    place: Place
    url: str
    env: Mapping[str, str]
    nodes: tuple[Group, ...]

    def python_processes(self) -> tuple[list[int], list[int]]:
        """Pids of the daemons, and of all workers that they have forked."""
        daemons: list[int] = []
        workers: list[int] = []
        for node in self.nodes:
            for pid in node.members():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process = psutil.Process(pid)
                    if _DAEMON.search(" ".join(process.cmdline())):
                        above = process.parent()
                        parent = "" if above is None else " ".join(above.cmdline())
                        (workers if _DAEMON.search(parent) else daemons).append(pid)
        return daemons, workers

    def executor_logs(self) -> str:
        """What the executors' JVMs, daemons and workers have written to standard error."""
        logs = self.place.folder.glob("work-*/app-*/*/stderr")
        return "\n".join(path.read_text(errors="replace") for path in sorted(logs))


@contextlib.contextmanager
def master(place: Place) -> Iterator[str]:
    """A master that runs while the block does; gives its address.

    Raises:
        click.ClickException: there is no Java.
        ServerFailed: it does not start.
    """
    if shutil.which("java") is None:
        raise click.ClickException("Spark needs a Java: apt-get install default-jre-headless")
    port = free_port()
    (place.folder / "conf").mkdir(exist_ok=True)
    command = spark_command(place, "master.Master", "--port", str(port))
    with Group(command, log=place.folder / "master.log", env=spark_environment(place)) as group:
        _wait(group, "I have been elected leader")
        yield f"spark://{LOOPBACK}:{port}"


@contextlib.contextmanager
def cluster(place: Place) -> Iterator[Cluster]:
    """A cluster that runs while the block does.

    Raises:
        click.ClickException: there is no Java.
        ServerFailed: a process of it does not start.
    """
    env = spark_environment(place)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(master(place))
        nodes = []
        for number in range(NODES):
            command = node_command(place, url, CORES_A_NODE, place.folder / f"work-{number}")
            log = place.folder / f"node-{number}.log"
            nodes.append(stack.enter_context(Group(command, log=log, env=env)))
        for node in nodes:
            _wait(node, "Successfully registered with master")
        yield Cluster(place, url, env, tuple(nodes))


def node_command(place: Place, url: str, cores: int, folder: Path) -> list[str]:
    """What starts a node of a master, which writes to a folder."""
    words = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(folder), url]
    return spark_command(place, "worker.Worker", *words)


def spark_environment(place: Place) -> Mapping[str, str]:
    """Variables of a master, a node, or a driver."""
    return environment(
        {
            "SPARK_HOME": str(_home(place)),
            "SPARK_CONF_DIR": str(place.folder / "conf"),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(place.folder),
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": str(place.python),
            "PYTHONPATH": str(PROGRAMS),
        },
        without=("PASTURE_", "SPARK_", "PYSPARK_"),
    )


def spark_command(place: Place, name: str, *words: str) -> list[str]:
    """What starts a program of Spark's deployment on loopback."""
    begin = [str(_home(place) / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    return [*begin, "--host", LOOPBACK, "--webui-port", "0", *words]


def _home(place: Place) -> Path:
    return next(place.python.parents[1].glob("lib/python*/site-packages/pyspark"))


def _wait(group: Group, line: str) -> None:
    group.wait_for(lambda: line in group.log, f"no line {line!r}", timeout_s=TIMEOUT_S)
