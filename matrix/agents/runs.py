"""One boot of a server with an agent: what was sealed, what a worker holds, what arrived.

Owns the order: boot, requests until every worker has served enough, a wait until everything has
arrived, a look at the memory, some last requests, the end. Knows no agent.
"""

from __future__ import annotations

import http.client
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matrix.agents import environments
from matrix.agents.catalog import Agent
from matrix.agents.services import service
from matrix.agents.sink import LOOPBACK, Mark, Sink
from matrix.environments import REPOSITORY, run
from pasture.errors import PastureError
from pasture.proc import smaps
from pasture_tools.launch.ports import free_port
from pasture_tools.launch.session import Group, environment

WORKERS = 2
REQUESTS = 10
"""That each worker has served at the least before memory is read."""

AT_A_TIME = 2 * WORKERS

LAST_REQUESTS = 4
"""Right before the server is asked to end."""

BOOT_S = 120.0
DELIVERY_S = 20.0
END_S = 40.0

COMMANDS: Mapping[str, Sequence[str]] = {
    "gunicorn": ("gunicorn", "matrix.agents.application:wsgi", "-w", str(WORKERS), "-b"),
    "uvicorn": ("uvicorn", "matrix.agents.application:asgi", "--workers", str(WORKERS)),
}

REFORK = ("--refork", f"{REQUESTS},1000000")
PROMOTED = "all workers are of generation"

Asked = dict[int, list[int]]
"""Dict of pid to the numbers of the requests that it has served."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Marks that were due at the sink, of all workers and kinds.

    Attributes:
        asked: how many were due; 0 if they come by the clock.
        once, lost, twice: how many arrived in one message, in none, in more.
        by_worker: how many arrived from each worker, in no order.
        wrong: kinds of those that were lost or came twice.
    """

    asked: int = 0
    once: int = 0
    lost: int = 0
    twice: int = 0
    by_worker: tuple[int, ...] = ()
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of one boot.

    Attributes:
        python: the version of CPython.
        failure: why there is nothing else; "" if there is.
        reason: why the parent was not sealed; None if it was.
        left_out: steps of the seal that were not taken, each with the reason.
        hazards: what the seal named as not fit for a fork.
        threads_before, tasks_before: names of Python threads besides the one that forks, and
            threads that the kernel counts, at the parent's first fork.
        threads_after, tasks_after: the same in a worker at the end.
        private_bytes: of each worker.
        steady: marks of requests with time to arrive.
        last: marks of requests right before the end.
        from_parent: marks of the parent that arrived.
        parents_twice: those of them that arrived more than once.
    """

    python: str = ""
    failure: str = ""
    reason: str | None = None
    left_out: tuple[str, ...] = ()
    hazards: tuple[str, ...] = ()
    threads_before: tuple[str, ...] = ()
    tasks_before: int = 0
    threads_after: tuple[str, ...] = ()
    tasks_after: int = 0
    private_bytes: tuple[int, ...] = ()
    steady: Delivery = Delivery()
    last: Delivery = Delivery()
    from_parent: int = 0
    parents_twice: int = 0


def boot(
    agent: Agent,
    server: str,
    minor: str,
    policy: str,
    explain: Callable[[int], object] | None = None,
) -> Run:
    """Boot a server under a policy, with an agent, on an interpreter.

    Args:
        explain: takes the pid of a worker whose memory has been read, and that still serves.
    """
    python = environments.prepare(agent, minor)
    version = run(python, "-c", "import platform; print(platform.python_version())")
    with TemporaryDirectory() as folder, ExitStack() as stack:
        trial = Trial(agent, server, Path(folder), explain)
        try:
            return trial.run(stack, python, version, policy)
        except (PastureError, OSError) as error:
            hint = getattr(error, "hint", "") or ""
            return Run(version, failure=f"{error}\n{hint}".strip())
        finally:
            kept = environments.BUILD / "logs" / f"{agent.name}-{server}-{minor}-{policy}.txt"
            kept.parent.mkdir(parents=True, exist_ok=True)
            if trial.log.exists():
                shutil.copyfile(trial.log, kept)


class Trial:
    """The server, its sink and what has been asked of it so far."""

    def __init__(
        self,
        agent: Agent,
        server: str,
        folder: Path,
        explain: Callable[[int], object] | None = None,
    ) -> None:
        self.log = folder / "log"
        self._explain = explain
        self._agent, self._server, self._folder = agent, server, folder
        self._port, self._scraped_port = free_port(), free_port()

    def run(self, stack: ExitStack, python: Path, version: str, policy: str) -> Run:
        certificate = environments.certificate() if self._agent.tls else None
        self._sink = stack.enter_context(Sink(certificate))
        self._service = stack.enter_context(service(self._agent.service, python, self._folder))
        command = self._command(python, policy)
        env = self._environment(python)
        group = stack.enter_context(Group(command, log=self.log, env=env, cwd=REPOSITORY))
        group.wait_for(self._answers, "it does not answer", timeout_s=BOOT_S)
        served = self._serve(group)
        asked = served
        if policy == "refork":
            group.wait_for(self._is_promoted, "no worker became a mold", timeout_s=BOOT_S)
            served = self._serve(group)
            asked = {pid: asked.get(pid, []) + served.get(pid, []) for pid in {*asked, *served}}
        self._wait_for_delivery(asked)
        workers = {pid: self._private_bytes(pid) for pid in served}
        if self._explain is not None:
            self._explain(next(iter(workers)))
        after = self._get("/threads")
        steady = delivery(self._agent, asked, self._arrived())
        last = self._last_requests()
        group.terminate()
        group.wait(END_S)
        # What a worker says as it ends comes before its end, and is counted right after.
        time.sleep(0.5)
        arrived = self._arrived()
        report = self._report()
        before = self._noted_by_the_application()
        return Run(
            python=version,
            reason=report.get("reason"),
            left_out=tuple(
                f"{step['name']}: {step['skipped'] or step['failed']}"
                for step in report.get("steps", ())
                if step["skipped"] or step["failed"]
            ),
            hazards=tuple(
                problem
                for step in report.get("steps", ())
                if step["name"] == "survey"
                for problem in step["problems"]
            ),
            threads_before=tuple(before["threads"]),
            tasks_before=before["tasks"],
            threads_after=tuple(after["threads"]),
            tasks_after=after["tasks"],
            private_bytes=tuple(workers.values()),
            steady=steady,
            last=delivery(self._agent, last, arrived),
            from_parent=sum(pid == group.pid for _, pid, _ in arrived),
            parents_twice=sum(
                count > 1 for (_, pid, _), count in arrived.items() if pid == group.pid
            ),
        )

    def _command(self, python: Path, policy: str) -> list[str]:
        binaries = python.parent
        wrapper = list(self._agent.wrapper)
        if wrapper:
            wrapper[0] = str(binaries / wrapper[0])
        words = list(COMMANDS[self._server])
        address = f"{LOOPBACK}:{self._port}"
        words += [address] if words[-1] == "-b" else ["--port", str(self._port)]
        if self._server == "gunicorn":
            words.append("--no-control-socket")
        pasture = [str(binaries / "pasture"), "run", "--policy", policy]
        pasture += REFORK if policy == "refork" else ("--warm", "/mark")
        return [*wrapper, *pasture, *words]

    def _environment(self, python: Path) -> dict[str, str]:
        agent = self._agent
        filled = {
            name: value.format(
                port=self._sink.port,
                tls_port=self._sink.tls_port,
                udp_port=self._sink.udp_port,
                folder=self._folder,
                certificate=environments.BUILD / "certificate.pem",
            )
            for name, value in agent.environment.items()
        }
        return environment(
            {
                "PATH": f"{python.parent}:/usr/bin:/bin",
                "PYTHONPATH": str(REPOSITORY),
                "PASTURE_REPORT_FILE": str(self._folder / "report.json"),
                "AGENT_RECIPE": agent.recipe,
                "AGENT_PLACE": agent.place,
                "AGENT_NOTES": str(self._folder),
                "SINK_PORT": str(self._sink.port),
                "SINK_UDP_PORT": str(self._sink.udp_port),
                "SCRAPED_PORT": str(self._scraped_port),
                **({"PASTURE_SNAPSHOT": f"{self._folder}/snapshot"} if self._explain else {}),
                **self._service.variables,
                **filled,
            }
        )

    def _get(self, path: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise OSError(f"{path} is answered with {response.status}")
        found: dict[str, Any] = json.loads(body)
        return found

    def _answers(self) -> bool:
        try:
            return bool(self._get("/threads"))
        except (OSError, http.client.HTTPException):
            return False

    def _serve(self, group: Group) -> Asked:
        """Ask until each worker has served enough."""
        asked: Asked = {}

        def enough() -> bool:
            # Several at a time: one worker alone would take all that come one after the other.
            for found in clients.map(self._get, ["/mark"] * AT_A_TIME):
                asked.setdefault(found["pid"], []).append(found["number"])
            return len(asked) >= WORKERS and min(map(len, asked.values())) >= REQUESTS

        with ThreadPoolExecutor(AT_A_TIME) as clients:
            group.wait_for(enough, "workers were asked unevenly", timeout_s=BOOT_S, pause=_shortly)
        return asked

    def _last_requests(self) -> Asked:
        asked: Asked = {}
        for _ in range(LAST_REQUESTS):
            found = self._get("/mark")
            asked.setdefault(found["pid"], []).append(found["number"])
        return asked

    def _wait_for_delivery(self, asked: Asked) -> None:
        deadline = time.monotonic() + (DELIVERY_S if self._agent.kinds else 0)
        while time.monotonic() < deadline:
            found = delivery(self._agent, asked, self._arrived())
            missing = found.lost or (self._agent.by_clock and 0 in found.by_worker)
            if not missing:
                return
            time.sleep(0.25)

    def _arrived(self) -> Mapping[Mark, int]:
        """What the sink holds, and what the agent or the service that it talks to hands out."""
        if self._agent.scrape:
            return self._scraped()
        if self._service.read is not None:
            return self._held(self._service.read())
        return self._sink.arrived()

    def _scraped(self) -> Mapping[Mark, int]:
        connection = http.client.HTTPConnection(LOOPBACK, self._scraped_port, timeout=10)
        try:
            connection.request("GET", self._agent.scrape)
            lines = connection.getresponse().read().splitlines()
        except OSError:  # the parent has ended
            return self._sink.arrived()
        finally:
            connection.close()
        return self._held(lines)

    def _held(self, messages: Iterable[bytes]) -> Mapping[Mark, int]:
        """What is held somewhere else, counted as if it had just arrived."""
        self._sink.clear()
        for message in messages:
            self._sink.take("held", message)
        return self._sink.arrived()

    @staticmethod
    def _private_bytes(pid: int) -> int:
        memory = smaps.read_memory(pid)
        if memory is None:
            raise OSError(f"worker {pid} has ended")
        return memory.private_bytes

    def _is_promoted(self) -> bool:
        """Whether a worker has become the parent of all others. The others have to be asked."""
        self._get("/threads")
        return PROMOTED in self.log.read_text(errors="replace")

    def _noted_by_the_application(self) -> dict[str, Any]:
        """What ran in the process that loaded the application, at its first fork, if it forked."""
        for path in self._folder.glob("[0-9]*.json"):
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        return {"threads": (), "tasks": 1}

    def _report(self) -> dict[str, Any]:
        path = self._folder / "report.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found


def _shortly(seconds: float) -> None:
    time.sleep(min(seconds, 0.01))


def due(agent: Agent, asked: Asked) -> Iterator[Mark]:
    for pid, numbers in asked.items():
        for number in numbers:
            yield from ((kind, pid, number) for kind in agent.kinds)


def delivery(agent: Agent, asked: Asked, arrived: Mapping[Mark, int]) -> Delivery:
    """Compare what was asked with what arrived."""
    workers = Counter({pid: 0 for pid in asked})
    for (_, pid, _), _count in arrived.items():
        if pid in workers:
            workers[pid] += 1
    by_worker = tuple(workers.values())
    if agent.by_clock:
        return Delivery(by_worker=by_worker)
    marks = list(due(agent, asked))
    counts = [arrived.get(mark, 0) for mark in marks]
    return Delivery(
        asked=len(marks),
        once=counts.count(1),
        lost=counts.count(0),
        twice=sum(count > 1 for count in counts),
        by_worker=by_worker,
        wrong=tuple(sorted({mark[0] for mark in marks if arrived.get(mark, 0) != 1})),
    )
