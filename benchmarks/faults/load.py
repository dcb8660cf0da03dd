"""A steady load whose every request is accounted for, and a scraper that no total may fall for.

Owns no judgement of what may be lost: it reports what was.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasture.scoreboard import layout
from pasture_tools.launch.ports import LOOPBACK, free_port

ANSWER_S = 60.0
"""How long a client waits for an answer."""

TASK_S = 300.0
"""As long for a task: a HUP of Celery may take a minute, and what waits is done after it."""

CLIENTS = 3
PAUSE_S = 0.1
TASKS_AT_ONCE = 2
SCRAPE_S = 1.0
PROGRAM = """
import atexit, json, os, sys
number = int(sys.argv[1])
atexit.register(print, "the end of", number)
if not (child := os.fork()):
    os._exit(number % 200)
print(json.dumps({"number": number}), flush=True)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""Says its number, and ends with the status of a child."""
COUNTED = ("_total", "_count", "_sum", "_bucket")


@dataclass(frozen=True, slots=True)
class Loss:
    """A request without an answer; times in seconds of the monotonic clock."""

    number: int
    began: float
    ended: float
    why: str


class Load:
    """The outcomes of all requests; a subclass sends them.

    Attributes:
        answered: number of right answers.
        losses: all others, not yet judged.
        latest: of the latest answers, when each was asked for.
    """

    threads_count = 1

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self._pause_s = pause_s
        self.answered = 0
        self.losses: deque[Loss] = deque()
        self.latest: deque[float] = deque(maxlen=50)
        self._numbers = itertools.count()
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self.run) for _ in range(self.threads_count)]
        for thread in self._threads:
            thread.start()

    def run(self) -> None:
        raise NotImplementedError

    @property
    def goes_on(self) -> bool:
        return not self._stopped.is_set()

    def number(self) -> int:
        with self._lock:
            return next(self._numbers)

    def count(self, number: int, began: float, why: str | None) -> None:
        """Count an answer, or a loss for a reason."""
        with self._lock:
            if why is None:
                self.answered += 1
                self.latest.append(began)
            else:
                self.losses.append(Loss(number, began, time.monotonic(), why))

    def stop(self) -> None:
        """Returns when all that was sent has come to something."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()


class OneByOne(Load):
    """Each thread waits for an answer before it sends again."""

    def run(self) -> None:
        while self.goes_on:
            number, began = self.number(), time.monotonic()
            self.count(number, began, self.send(number))
            time.sleep(self._pause_s)

    def send(self, number: int) -> str | None:
        """None, or why there was no right answer."""
        raise NotImplementedError


class Requests(OneByOne):
    """Requests over HTTP, each on a connection of its own, to whatever port is the server's."""

    threads_count = CLIENTS

    def __init__(self, port: int, pause_s: float = PAUSE_S) -> None:
        self.port = port
        super().__init__(pause_s)

    def send(self, number: int) -> str | None:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=ANSWER_S)
        try:
            connection.request("GET", f"/{number}", headers={"Connection": "close"})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                return f"status {answer.status}"
            return None if json.loads(body)["number"] == number else f"a wrong answer: {body!r}"
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            return repr(error)
        finally:
            connection.close()


class Tasks(Load):
    """Celery's tasks: sent by one thread that also asks for their outcomes."""

    def __init__(self, broker: str, pause_s: float = PAUSE_S) -> None:
        import celery
        import kombu.exceptions
        import redis

        self._client = celery.Celery("client", broker=broker, backend=broker, set_as_current=False)
        # Results are asked for one by one: no client listens to what Redis would publish.
        self._client.backend.on_task_call = lambda *_: None
        self._no_broker = (kombu.exceptions.OperationalError, redis.RedisError)
        super().__init__(pause_s)

    def run(self) -> None:
        waiting: dict[str, tuple[int, float]] = {}
        while self.goes_on or waiting:
            with contextlib.suppress(*self._no_broker):
                self._send_and_ask(waiting)
            time.sleep(self._pause_s)
        self._client.close()

    def _send_and_ask(self, waiting: dict[str, tuple[int, float]]) -> None:
        if self.goes_on and len(waiting) < 200:
            for _ in range(TASKS_AT_ONCE):
                number = self.number()
                sent = self._client.send_task("fault_tasks.answer", args=(number,))
                waiting[sent.id] = number, time.monotonic()
        for name, (number, began) in list(waiting.items()):
            with contextlib.suppress(Unanswered):
                self.count(number, began, self.answer_of(name, number, began))
                del waiting[name]

    def answer_of(self, name: str, number: int, began: float) -> str | None:
        """None, or why there was no right answer. Raises Unanswered while there may be one."""
        meta: dict[str, Any] = self._client.backend.get_task_meta(name)
        if meta["status"] == "SUCCESS":
            right = meta["result"]["number"] == number
            return None if right else f"a wrong result: {meta['result']}"
        if meta["status"] == "FAILURE":
            return f"failed: {meta['result']!r}"
        if time.monotonic() - began > TASK_S:
            return f"no result ({meta['status']})"
        raise Unanswered


class Programs(OneByOne):
    """Programs out of an image, one after the other: each ends as by `python`.

    Args:
        image: that `PASTURE_IMAGE` names.
    """

    def __init__(self, image: Path, pause_s: float = PAUSE_S) -> None:
        self._environ = {**os.environ, "PASTURE_IMAGE": str(image)}
        self._stub = Path(sys.executable).with_name("pasture-python")
        super().__init__(pause_s)

    def send(self, number: int) -> str | None:
        done = subprocess.run(
            [self._stub, "-c", PROGRAM, f"{number}"],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
        )
        found = (done.returncode, done.stdout, done.stderr)
        right = (number % 200, f"{json.dumps({'number': number})}\nthe end of {number}\n", "")
        return None if found == right else f"ended otherwise: {found}"


class Unanswered(Exception):
    """A task that has no result yet."""


def scoreboard_of(server_pid: int) -> int | None:
    """The inode of the memory that a program counts in, which no other memory has."""
    for path in Path(f"/proc/{server_pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(path.readlink()).startswith(f"/memfd:{layout.NAME} "):
                return path.stat().st_ino
    return None


class Scraper:
    """An exporter of one life of a server, and who asks it every second.

    At a reload uWSGI and Celery run their program again in the same process, and its counts begin
    again too. That is no fall.

    Attributes:
        falls: totals that fell, a line each.
        scrapes: how many were answered.
    """

    def __init__(self, server_pid: int, every_s: float = SCRAPE_S) -> None:
        self.port, self._every_s = free_port(), every_s
        self.falls: list[str] = []
        self.scrapes = 0
        command = [sys.executable, "-m", "pasture", "metrics", f"{server_pid}"]
        self.process = subprocess.Popen(
            [*command, "--port", f"{self.port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._server_pid = server_pid
        self._board = scoreboard_of(server_pid)
        self._totals: dict[str, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._compare(self._totals_now(), scoreboard_of(self._server_pid))
                self.scrapes += 1

    def _totals_now(self) -> dict[str, float]:
        url = f"http://{LOOPBACK}:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if line and not line.startswith("#")]
        return {
            name: float(value)
            for name, value in pairs
            if name.split("{")[0].endswith(COUNTED) and not name.startswith("pasture_process")
        }

    def _compare(self, totals: dict[str, float], board: int | None) -> None:
        if board != self._board:
            self._board, self._totals = board, {}
            return
        for name, value in totals.items():
            if value < self._totals.get(name, 0.0):
                self.falls.append(f"{name}: {self._totals[name]} -> {value}")
        self._totals |= totals

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
