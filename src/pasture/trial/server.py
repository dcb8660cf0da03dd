"""One server under one policy: its command line, its environment, its first answer.

Owns how a policy reaches the server. The server itself is `pasture run gunicorn ...`,
which the user could start by hand in the same way.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasture.errors import UsageError
from pasture.proc import tree
from pasture.trial import diagnosis
from pasture.trial.plan import LOOPBACK, TrialPlan
from pasture.trial.session import Group, environment
from pasture.trust import private_files
from pasture.warmup.requests import Header, Request

_POLL_S = 0.05
_WORKERS_S = 10.0

Pause = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What the server and the load generator of one run find and leave, each with its own log."""

    directory: Path
    log: Path

    @property
    def warm(self) -> Path:
        """`METHOD PATH` lines, for the server."""
        return self.directory / "warm.txt"

    @property
    def warm_headers(self) -> Path:
        """`Name: value` lines, for the server."""
        return self.directory / "warm-headers.txt"

    @property
    def report(self) -> Path:
        """JSON, written by the server's process."""
        return self.directory / "report.json"

    @property
    def load_settings(self) -> Path:
        """JSON, for the load generator."""
        return self.directory / "load.json"

    @property
    def progress(self) -> Path:
        """One decimal number, written by the load generator: requests answered."""
        return self.directory / "progress"

    @property
    def load_result(self) -> Path:
        """JSON, complete once the load generator has ended."""
        return self.directory / "result.json"


def server_command(plan: TrialPlan, policy: str, port: int) -> list[str]:
    """The command line that serves an application under a policy."""
    return [
        plan.server_python, "-m", "pasture", "run", "--policy", policy,
        "gunicorn", "--workers", str(plan.workers), "--bind", f"{LOOPBACK}:{port}",
        *plan.server_args, plan.app,
    ]  # fmt: skip


def server_environment(plan: TrialPlan, policy: str, files: RunFiles) -> dict[str, str]:
    """Our environment, the user's additions, and what tells the server of policy and files.

    Variables of a surrounding `pasture` are dropped: a trial must not inherit a policy.
    """
    told = {
        "PASTURE_POLICY": policy,
        "PASTURE_WARM_FILE": str(files.warm),
        "PASTURE_WARM_HEADERS_FILE": str(files.warm_headers),
        "PASTURE_REPORT_FILE": str(files.report),
        "PYTHONUNBUFFERED": "1",
    }
    return environment({**plan.env, **told})


def write_warm_up(files: RunFiles, warm: Iterable[Request], headers: Iterable[Header]) -> None:
    """Write the requests that a policy with a warm-up serves before the fork."""
    private_files.write(files.warm, "".join(f"{request}\n" for request in warm))
    lines = "".join(f"{name}: {value}\n" for name, value in headers)
    private_files.write(files.warm_headers, lines)


def read_report(files: RunFiles) -> Mapping[str, Any] | None:
    """What the server wrote of its seal; None if nothing, or nothing that is a JSON object."""
    try:
        report = json.loads(files.report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return report if isinstance(report, dict) else None


def wait_until_it_answers(plan: TrialPlan, server: Group, port: int, pause: Pause) -> float:
    """Wait for the first answer and for all workers; return the seconds it took.

    Any answer will do: whether the URLs of the load work is judged by the load.

    Raises:
        AppImportFailed, PortTaken, ServerFailed: the server ended.
        AppDidNotAnswer: it runs, and did not answer in `plan.server_timeout_s`.
        UsageError: the request cannot be sent at all.
    """
    start = time.monotonic()
    probe = _Probe(plan, port)
    while not probe.answered:
        if probe.failure is not None:
            raise probe.failure
        code = server.exit_code()
        if code is not None:
            raise diagnosis.ended_early(plan.app, server.log, code, port)
        if time.monotonic() - start > plan.server_timeout_s:
            raise diagnosis.did_not_answer(plan.app, server.log, plan.server_timeout_s)
        pause(_POLL_S)
    seconds = time.monotonic() - start
    deadline = time.monotonic() + _WORKERS_S
    while len(tree.forked_workers(server.pid)) < plan.workers and time.monotonic() < deadline:
        pause(_POLL_S)
    return seconds


def headers_of(request: Request, plan: TrialPlan) -> tuple[Header, ...]:
    """The headers that a request of the load carries: the plan's, and its own host."""
    return plan.headers if request.host is None else (*plan.headers, ("Host", request.host))


class _Probe:
    """Sends one request until it is answered, in a thread, so that waiting can be interrupted.

    A slow application gets the whole time for its first answer: a request under way is
    never given up for another one.
    """

    def __init__(self, plan: TrialPlan, port: int) -> None:
        first = plan.urls[0] if plan.locustfile is None else Request("GET", "/")
        self._method = first.method if first.method in ("GET", "HEAD") else "GET"
        self._path = first.path
        self._headers = dict(headers_of(first, plan))
        self._port = port
        self._deadline = time.monotonic() + plan.server_timeout_s
        self.answered = False
        self.failure: UsageError | None = None
        threading.Thread(target=self._run, name="pasture-probe", daemon=True).start()

    def _run(self) -> None:
        try:
            while not self.answered and (left := self._deadline - time.monotonic()) > 0:
                self.answered = self._ask(left)
                time.sleep(_POLL_S)
        except (ValueError, http.client.InvalidURL) as error:
            self.failure = UsageError(
                f"{self._method} {self._path} cannot be sent: {error}",
                hint="check the first --url and the headers",
            )

    def _ask(self, timeout_s: float) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=timeout_s)
        try:
            connection.request(self._method, self._path, headers=self._headers)
            connection.getresponse().read()
        except http.client.InvalidURL:
            raise
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True
