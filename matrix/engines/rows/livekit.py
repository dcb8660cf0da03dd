"""LiveKit's agent server: idle job processes, from its own forkserver with and without a seal."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click
import psutil

from matrix.engines.engine import Engine, Figures, Place, Variant, memory_of
from pasture_tools.launch.session import Group, environment

WORKERS = 4
PROGRAM = Path(__file__).parents[1] / "programs" / "livekit_agent.py"
INITIALIZED = "process initialized"
TIMEOUT_S = 600.0


def measure(variant: Variant, place: Place) -> Figures:
    modules = [] if variant == "theirs" else ["pasture.servers.forkserver"]
    command = [str(place.python), str(PROGRAM), str(WORKERS), *modules]
    began = time.monotonic()
    report = place.folder / "report.json"
    env = environment({"PASTURE_REPORT_FILE": str(report)})
    with Group(command, log=place.folder / "agent.log", env=env) as group:
        group.wait_for(
            lambda: group.log.count(INITIALIZED) >= WORKERS,
            "the job processes did not start",
            timeout_s=TIMEOUT_S,
        )
        start_s = time.monotonic() - began
        if variant == "sealed" and not json.loads(report.read_text())["sealed"]:
            raise click.ClickException(f"the forkserver is not sealed: {report.read_text()}")
        workers = job_processes(group.pid)
        if len(workers) != WORKERS:
            raise click.ClickException(f"{len(workers)} job processes of {WORKERS}")
        private, pss = memory_of(workers, others=set(group.members()) - set(workers))
        group.terminate()
        group.wait(TIMEOUT_S)
    return Figures(private, pss, start_s)


def job_processes(server_pid: int) -> list[int]:
    """Pids of what the server's forkserver has forked."""
    servers = [
        child
        for child in psutil.Process(server_pid).children()
        if "multiprocessing.forkserver" in " ".join(child.cmdline())
    ]
    return sorted(job.pid for server in servers for job in server.children())


ENGINE = Engine(
    name="livekit",
    title="livekit-agents",
    rank=52,
    theirs="`AgentServer(...)`, whose forkserver collects and freezes",
    way_in='`AgentServer(preload_modules=["pasture.servers.forkserver"], ...)`, or `PASTURE=seal`',
    workers=WORKERS,
    measure=measure,
    packages="livekit",
    guide="multiprocessing.md#the-forkserver",
    note="Job processes that wait for a job, as the server keeps them; without LiveKit none has "
    "served a call.",
)
