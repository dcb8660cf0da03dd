"""A scheduler of Dask's and one node with several workers, on loopback.

Owns their start and end, and which processes are the node's workers. All that they write lies in
the folder of the start.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix.engines.engine import Place
from pasture.errors import ServerFailed
from pasture_tools.launch.ports import LOOPBACK, free_port
from pasture_tools.launch.session import Group, environment

TIMEOUT_S = 900.0
PROGRAMS = Path(__file__).with_name("programs")
REGISTERED = "Registered to:"
SEALED_WORDS = ("--preload-nanny", "pasture.servers.dask")


@dataclass(frozen=True, slots=True)
class Node:
    """A `dask worker --nworkers N` that runs, all workers registered.

    Attributes:
        url: of the scheduler.
        group: its processes.
        start_s: from its start until all workers were registered.
    """

    place: Place
    url: str
    group: Group
    workers: int
    start_s: float

    def run_jobs(self, rounds: int) -> Mapping[str, Any]:
        """What `programs/dask_job.py` prints of its rounds.

        Raises:
            ServerFailed: the results are wrong, or it ended otherwise.
        """
        done = subprocess.run(
            [
                str(self.place.python),
                str(PROGRAMS / "dask_job.py"),
                self.url,
                str(self.workers),
                str(rounds),
            ],
            env=environment({"PYTHONPATH": str(PROGRAMS)}),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise ServerFailed("the jobs failed", hint=done.stderr[-3000:] + self.group.log[-2000:])
        found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


@contextlib.contextmanager
def scheduler(place: Place) -> Iterator[str]:
    """A scheduler that runs while the block does; gives its address."""
    url = f"tcp://{LOOPBACK}:{free_port()}"
    command = [place.script("dask"), "scheduler", "--host", url, "--no-dashboard"]
    with Group(command, log=place.folder / "scheduler.log", env=dask_environment()) as group:
        group.wait_for(lambda: "Scheduler at:" in group.log, "no scheduler", timeout_s=TIMEOUT_S)
        yield url


@contextlib.contextmanager
def node(
    place: Place, workers: int, words: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> Iterator[Node]:
    """A scheduler and a node that run while the block does.

    Args:
        words: further arguments of `dask worker`.
        settings: further variables of its environment.
    """
    with scheduler(place) as url:
        env = dask_environment(settings)
        command = [*node_command(place, url, workers, place.folder), *words]
        began = time.monotonic()
        with Group(command, log=place.folder / "node.log", env=env) as group:
            group.wait_for(
                lambda: group.log.count(REGISTERED) >= workers,
                "the workers did not start",
                timeout_s=TIMEOUT_S,
            )
            yield Node(place, url, group, workers, time.monotonic() - began)


def node_command(place: Place, url: str, workers: int, folder: Path) -> list[str]:
    """What starts a node of a scheduler, which writes to a folder."""
    command = [place.script("dask"), "worker", url, "--nworkers", str(workers), "--nthreads", "1"]
    return [*command, "--host", LOOPBACK, "--no-dashboard", "--local-directory", str(folder)]


def dask_environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables of a scheduler or a node, and further ones."""
    added = {"PYTHONPATH": str(PROGRAMS), **(settings or {})}
    return environment(added, without=("PASTURE_", "DASK_"))
