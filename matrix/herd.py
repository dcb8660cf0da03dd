"""A gunicorn that reforks, and a load whose every request is accounted for.

Shared by `benchmarks.refork` and the soaks.
"""

from __future__ import annotations

import hashlib
import http.client
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pasture.scoreboard.layout import Entry
from pasture.scoreboard.reader import read_scoreboard
from pasture.warmup.requests import Request
from pasture_tools.launch.ports import LOOPBACK, free_port, listens
from pasture_tools.launch.session import Group, environment

TIMEOUT_S = 60.0
AT_ANY_PRICE = Path(__file__).resolve().parents[1] / "tests" / "programs" / "any_price"
"""In PYTHONPATH: reforks go on whatever they save."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One request.

    Attributes:
        started: seconds of the monotonic clock.
        status: of the answer; 0 without one.
        body: digest of the answer's.
    """

    number: int
    what: str
    started: float
    seconds: float
    status: int
    body: str


class Herd(Group):
    """A running server. Leaving the `with` block ends it and whatever is left of it."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        directory: Path,
        cwd: Path,
        env: Mapping[str, str],
        prefix: Sequence[str] = (),
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        command = [*prefix, sys.executable, "-m", "pasture", "run", *words]
        command[-1:-1] = ["--bind", f"{LOOPBACK}:{self.port}"]
        variables = environment({**env, "HOME": str(directory)}, without=())
        log = directory / f"server-{self.port}.log"
        super().__init__(command, log=log, env=variables, cwd=cwd)

    def board(self) -> dict[int, Entry]:
        shown = read_scoreboard(self.pid)
        return shown.entries if shown is not None else {}

    def pids(self, role: str, generation: int | None = None) -> list[int]:
        return [
            entry.pid
            for entry in self.board().values()
            if entry.role == role and generation in (None, entry.generation)
        ]

    def wait_until_it_listens(self) -> None:
        self.wait_for(lambda: listens(self.port), "the server does not listen", timeout_s=TIMEOUT_S)

    def port_is_free(self) -> bool:
        return not listens(self.port)

    def stop(self) -> int:
        self.terminate()
        return self.wait(TIMEOUT_S)

    def __exit__(self, *_: object) -> None:
        self.end(polite_s=0)


class Load:
    """Clients that send a list of requests over and over, each request once.

    Attributes:
        sent: the outcome of each, in the order of the answers.
    """

    def __init__(
        self,
        port: int,
        walk: Sequence[Request],
        headers: Mapping[str, str],
        *,
        clients: int,
        requests: int | None,
    ) -> None:
        self.sent: list[Sent] = []
        self._port, self._walk, self._headers = port, walk, headers
        self._left, self._lock = requests, threading.Lock()
        self._next = 0
        self._stopped = False
        self._threads = [threading.Thread(target=self._run) for _ in range(clients)]

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Clients run inside; at the end they have finished what they had started."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopped = True
            self.join()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _take(self) -> int | None:
        with self._lock:
            if self._stopped or (self._left is not None and self._next >= self._left):
                return None
            self._next += 1
            return self._next - 1

    def _run(self) -> None:
        while (number := self._take()) is not None:
            request = self._walk[number % len(self._walk)]
            started = time.monotonic()
            status, body = self._send(request, number)
            seconds = time.monotonic() - started
            self.sent.append(Sent(number, f"{request}", started, seconds, status, body))

    def _send(self, request: Request, number: int) -> tuple[int, str]:
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=TIMEOUT_S)
        try:
            headers = {**self._headers, "X-Request-ID": f"{number}"}
            connection.request(request.method, request.path, headers=headers)
            answer = connection.getresponse()
            return answer.status, hashlib.blake2b(answer.read(), digest_size=16).hexdigest()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()
