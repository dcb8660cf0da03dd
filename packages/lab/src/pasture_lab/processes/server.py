"""uWSGI in pre-fork mode with one of the lab's sites, as it is or under a policy.

Owns the command line and when the server is ready: once all workers are forked, before any
request. As it is means without pasture in the process at all.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pasture.proc import tree
from pasture.proc.smaps import Memory
from pasture_lab.engine.experiment import Bench
from pasture_lab.processes import side_table
from pasture_lab.processes.program import environment
from pasture_tools.launch.ports import LOOPBACK, free_port, listens
from pasture_tools.launch.session import Group, last_exception
from pasture_tools.proc.sampler import Sample, sample_tree, sample_until_whole

SITES = Path(__file__).parents[1] / "sites"

_BOOT_S = 90.0
_POLL_S = 0.02
_PLAIN = "import sys, pyuwsgi; sys.exit(pyuwsgi.run(sys.argv[1:]))"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """The application to serve, and how.

    Attributes:
        module: of `sites`, with the callable `application`.
        workers: to fork.
        policy: of pasture or the lab's own; None starts uWSGI without pasture.
        warm: whether a policy that warms up serves the first page before the fork.
        env: added to the environment.
        first: a module of `sites` that is imported before anything else.
        http: serve HTTP itself; else uWSGI's protocol, for a server in front.
        prefix: a command that starts the command that follows it.
    """

    module: str
    workers: int
    policy: str | None = None
    warm: bool = True
    env: Mapping[str, str] = field(default_factory=dict)
    first: str = ""
    http: bool = True
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    group: Group
    port: int

    def workers(self) -> tuple[int, ...]:
        """Pids, ascending."""
        return tree.forked_workers(self.group.pid)

    def wait_until_it_serves(self, bench: Bench, workers: int, *, logs: str = "") -> None:
        """Wait until all workers are forked and the port takes connections.

        Args:
            logs: what the server logs for each worker, if it forks other children, too: the probe
                of pasture is one.

        Raises:
            ServerFailed: it ended, or takes too long.
        """
        self.group.wait_for(
            lambda: (
                len(self.workers()) >= workers
                and listens(self.port)
                and (not logs or self.group.log.count(logs) >= workers)
            ),
            "the server did not come up",
            timeout_s=_BOOT_S,
            pause=bench.pause,
        )

    def cpu_s(self) -> float:
        """User and system time of the workers so far."""
        return sum(_cpu_ns(pid) for pid in self.workers()) / 1e9

    def sample(self, requests: int = 0) -> Sample:
        """The memory of master and workers.

        Raises:
            ServerFailed: they end all the time.
        """
        sample = sample_until_whole(
            lambda: sample_tree(self.group.pid, requests=requests),
            between=lambda: time.sleep(_POLL_S),
        )
        if sample is None:
            raise self.group.failure("the workers do not stay alive")
        return sample


def command(plan: ServerPlan, port: int) -> list[str]:
    """The command line that serves a plan."""
    program = ["-c", _PLAIN] if plan.policy is None else ["-m", "pasture.servers.uwsgi"]
    listen = "--http-socket" if plan.http else "--socket"
    first = ["--shared-import", plan.first] if plan.first else []
    if plan.policy == side_table.SIDE_TABLE.name:
        first += ["--shared-import", side_table.__name__]
    itself = ["--binary-path", sys.executable] if plan.policy is None else []
    return [
        *plan.prefix, sys.executable, *program,
        "--master", "--die-on-term", "--need-app", "--single-interpreter", "--disable-logging",
        "--processes", str(plan.workers), "--module", f"{plan.module}:application",
        *first, listen, f"{LOOPBACK}:{port}", "--listen", "100", *itself,
    ]  # fmt: skip


def variables(plan: ServerPlan) -> dict[str, str]:
    """The environment of the server."""
    policy = {} if plan.policy is None else {"PASTURE_POLICY": plan.policy}
    warm = {"PASTURE_WARM": "GET /"} if plan.policy is not None and plan.warm else {}
    return environment({"PYTHONPATH": str(SITES), **policy, **warm, **plan.env})


@contextmanager
def serving(bench: Bench, plan: ServerPlan) -> Iterator[Server]:
    """Start a server; whatever happens, none of its processes is left.

    Raises:
        ServerFailed: it does not come up.
    """
    port = free_port()
    report = bench.directory / "seal.json"
    report.unlink(missing_ok=True)
    env = variables(plan) | {"PASTURE_REPORT_FILE": str(report)}
    with Group(command(plan, port), log=bench.log("server"), env=env, cwd=bench.directory) as group:
        server = Server(group, port)
        server.wait_until_it_serves(bench, plan.workers, logs="spawned uWSGI worker ")
        _require_policy(plan, report, group)
        yield server


def median(sample: Sample, figure: Callable[[Memory], int]) -> float:
    """A figure of the median worker."""
    return statistics.median(figure(worker.memory) for worker in sample.workers)


def _require_policy(plan: ServerPlan, report: Path, group: Group) -> None:
    """Raise unless the server took the policy's steps: uWSGI serves even if that failed."""
    if plan.policy is None:
        return
    try:
        said = json.loads(report.read_text())
    except (OSError, ValueError):
        said = {}
    if said.get("policy") != plan.policy or (
        side_table.POLICIES[plan.policy].heap and not said["sealed"]
    ):
        why = last_exception(group.log) or "no report"
        raise group.failure(f"the server does not run under {plan.policy}: {why}")


def _cpu_ns(pid: int) -> int:
    """Processor time of a process's threads that run. proc_pid_stat(5) counts it in ticks of
    10 ms, which is a twentieth of what a worker uses in a quick run. Source:
    Documentation/scheduler/sched-stats.rst.
    """
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)
