"""What agents deliver from recycled pool processes of Celery: plain, from a sealed parent, and from
processes that are forked where Celery would spawn.

    python -m matrix.agents.recycled [NAME...]

Names are those of agents.toml. Each pool process runs a few tasks, with a pause before each, and is
replaced right after the last one. Prints a table of docs/results/agents.md; the exit status is 1
where pasture delivers less than plain.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from matrix.agents import environments
from matrix.agents.catalog import Agent, load_agents
from matrix.agents.runs import END_S, Asked, Delivery, Trial, delivery
from matrix.agents.services import service
from matrix.agents.sink import Sink
from matrix.environments import REPOSITORY
from matrix.page import table
from pasture_tools.launch.session import Group

AGENTS = ("opentelemetry-sdk", "opentelemetry-instrument", "ddtrace", "sentry-sdk", "newrelic")
MINOR = "3.13"
CELERY = ("celery==5.7.0", "redis==8.1.0", "packaging")
TASKS, TASKS_EACH = 12, 3
START_S = 180.0
WAYS: Mapping[str, tuple[str, str]] = {
    "plain": ("", "fork"),
    "sealed": ("seal", "fork"),
    "forked, not spawned": ("seal", "spawn"),
}
"""Policy, "" for Celery alone, and start method."""

_SEND = f"""
import json
from matrix.agents.jobs import app
jobs = [app.send_task("matrix.agents.jobs.mark") for _ in range({TASKS})]
print(json.dumps([job.get(timeout=300) for job in jobs]))
"""


class Jobs(Trial):
    """A Celery worker, its sink, and what its tasks have reported."""

    def delivered(self, stack: ExitStack, python: Path, way: str) -> tuple[Delivery, Delivery]:
        """Of all tasks except each process's last one, and of those."""
        certificate = environments.certificate() if self._agent.tls else None
        self._sink = stack.enter_context(Sink(certificate))
        self._service = stack.enter_context(service("redis", python, self._folder))
        policy, method = WAYS[way]
        command = [
            *self._agent.wrapper,
            *(("pasture", "run", "--policy", policy) if policy else ()),
        ]
        command += ["celery", "-A", "matrix.agents.jobs", "worker", "-c", "2", "-l", "INFO"]
        command += ["--max-tasks-per-child", str(TASKS_EACH), "--without-mingle"]
        command[0] = str(python.with_name(command[0]))
        env = {**self._environment(python), "AGENT_METHOD": method}
        with Group(command, log=self.log, env=env, cwd=REPOSITORY) as group:
            group.wait_for(lambda: " ready." in group.log, "no start", timeout_s=START_S)
            client = {**env, "AGENT_RECIPE": "", "AGENT_NOTES": str(self._folder)}
            send = [str(python), "-c", _SEND]
            done = subprocess.run(
                send, env=client, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True
            )
            asked: Asked = {}
            for one in json.loads(done.stdout):
                asked.setdefault(one["pid"], []).append(one["number"])
            self._wait_for_delivery(asked)
            group.terminate()
            group.wait(END_S)
        time.sleep(0.5)
        found = self._arrived()
        before = {pid: sorted(numbers)[: TASKS_EACH - 1] for pid, numbers in asked.items()}
        last = {pid: sorted(numbers)[TASKS_EACH - 1 :] for pid, numbers in asked.items()}
        return delivery(self._agent, before, found), delivery(self._agent, last, found)

    def _arrived(self) -> Mapping[tuple[str, int, int], int]:
        return self._sink.arrived()


def row(agent: Agent) -> tuple[list[str], bool]:
    """The agent's cells, and whether pasture delivers what plain does."""
    fuller = dataclasses.replace(agent, packages=[*agent.packages, *CELERY])
    python = environments.prepare(fuller, MINOR, "celery-")
    cells, arrived = [agent.title], {}
    for way in WAYS:
        with TemporaryDirectory() as folder, ExitStack() as stack:
            trial = Jobs(agent, "celery", Path(folder))
            try:
                found = trial.delivered(stack, python, way)
            finally:
                kept = environments.BUILD / "logs" / f"{agent.name}-celery-{way}.txt"
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(trial.log.read_text() if trial.log.exists() else "")
        arrived[way] = [one.once for one in found]
        cells.append(", last ".join(f"{one.once} of {one.asked}" for one in found))
        click.echo(f"{agent.name}, {way}: {cells[-1]}", err=True)
    plain = arrived.pop("plain")
    return cells, all(
        least <= got for one in arrived.values() for least, got in zip(plain, one, strict=True)
    )


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
def main(names: Sequence[str]) -> None:
    agents = load_agents()
    rows = [row(agents[name]) for name in names or AGENTS]
    click.echo(table(("agent", *WAYS), [cells for cells, _ in rows]))
    sys.exit(0 if all(fine for _, fine in rows) else 1)


if __name__ == "__main__":
    main()
