"""One server under one policy: its command line, its environment, its first answer.

Owns how a policy reaches the server. The server itself is `pasture run gunicorn ...`,
which the user could start by hand in the same way.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pasture.errors import UsageError
from pasture.proc import tree
from pasture.trial import diagnosis
from pasture.trial.plan import LOOPBACK, TrialPlan
from pasture.trial.session import Group, environment
from pasture.trust import private_files
from pasture.warmup.guard import STEP_S, TOTAL_S
from pasture.warmup.requests import Header, Request

_POLL_S = 0.05
_WORKERS_S = 10.0
_ASK_S = 60.0
_WARMING, _WARMED = "pasture: warm-up: ", re.compile(r"pasture: warm-up: \d+ requests, ")
_LOG_SHOWS_STEPS = "[INFO]"
_HAS_CONTROL_SOCKET = (
    "from gunicorn.config import KNOWN_SETTINGS as known; "
    "print(any(setting.name == 'control_socket' for setting in known))"
)

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
    def control_socket(self) -> Path:
        """gunicorn's, in place of the one of this user's other servers."""
        return self.directory / "control"

    @property
    def pid_file(self) -> Path:
        """gunicorn's, in place of the one that a configuration file names."""
        return self.directory / "pid"

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


def knows_control_socket(plan: TrialPlan, gunicorn: Path | None) -> bool:
    """Whether the server's gunicorn binds a control socket (25.1 and newer do).

    Args:
        gunicorn: folder of a gunicorn that the application's environment lacks.
    """
    told = environment({**plan.env, **_with_gunicorn(plan, gunicorn)})
    try:
        asked = subprocess.run(
            [plan.server_python, "-c", _HAS_CONTROL_SOCKET],
            capture_output=True, encoding="utf-8", env=told, cwd=plan.chdir, timeout=_ASK_S,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.TimeoutExpired):  # the run says what is wrong
        return False
    return asked.stdout.strip() == "True"


def server_command(
    plan: TrialPlan, policy: str, port: int, files: RunFiles, control_socket: bool = False
) -> list[str]:
    """The command line that serves an application under a policy.

    What the user's arguments or configuration may share with a server in production, socket and
    pid file, comes last and is the run's own.

    Args:
        control_socket: the server has one.
    """
    own = ["--pid", str(files.pid_file)]
    if control_socket:
        own += ["--control-socket", str(files.control_socket)]
    return [
        plan.server_python, "-m", "pasture", "run", "--policy", policy,
        "gunicorn", "--workers", str(plan.workers), "--bind", f"{LOOPBACK}:{port}",
        *plan.server_args, *own, plan.app,
    ]  # fmt: skip


def server_environment(
    plan: TrialPlan, policy: str, files: RunFiles, gunicorn: Path | None = None
) -> dict[str, str]:
    """Our environment, the user's additions, and what tells the server of policy and files.

    Variables of a surrounding `pasture` are dropped: a trial must not inherit a policy.

    Args:
        gunicorn: folder of a gunicorn that the application's environment lacks.
    """
    told = {
        "PASTURE_POLICY": policy,
        "PASTURE_WARM_FILE": str(files.warm),
        "PASTURE_WARM_HEADERS_FILE": str(files.warm_headers),
        "PASTURE_REPORT_FILE": str(files.report),
        "PYTHONUNBUFFERED": "1",
    }
    return environment({**plan.env, **_with_gunicorn(plan, gunicorn), **told})


def _with_gunicorn(plan: TrialPlan, gunicorn: Path | None) -> dict[str, str]:
    """The variable that adds a folder of modules, behind those that the user has added."""
    if gunicorn is None:
        return {}
    users = plan.env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (users, str(gunicorn))))}


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


def wait_until_it_answers(
    plan: TrialPlan, server: Group, port: int, pause: Pause, *, warms_up: bool = False
) -> float:
    """Wait for the first answer and for all workers; return the seconds it took.

    Any answer will do: whether the URLs of the load work is judged by the load. The warm-up, which
    has limits of its own, is not counted in the time that a boot may take.

    Args:
        warms_up: the server serves requests before its first fork.

    Raises:
        AppImportFailed, PortTaken, ServerFailed: the server ended.
        AppDidNotAnswer: it runs, and did not answer in `plan.server_timeout_s`.
        UsageError: the request cannot be sent at all.
    """
    start = time.monotonic()
    boot = BootClock(plan.server_timeout_s, warms_up)
    with _Probe(plan, port) as probe:
        while not probe.answered:
            if probe.failure is not None:
                raise probe.failure
            code = server.exit_code()
            if code is not None:
                raise diagnosis.ended_early(plan.app, server.log, code, port)
            if boot.is_over(time.monotonic() - start, server.log):
                raise diagnosis.did_not_answer(plan.app, server.log, plan.server_timeout_s)
            pause(_POLL_S)
    seconds = time.monotonic() - start
    deadline = time.monotonic() + _WORKERS_S
    while len(tree.forked_workers(server.pid)) < plan.workers and time.monotonic() < deadline:
        pause(_POLL_S)
    return seconds


class BootClock:
    """Tells when a boot has taken too long. It stands still while the server warms up.

    Args:
        limit_s: how long a boot may take.
        warms_up: the policy serves requests before the fork.
    """

    def __init__(self, limit_s: float, warms_up: bool) -> None:
        self._limit_s = limit_s
        self._warms_up = warms_up
        self._stood_s = self._last_s = 0.0

    def is_over(self, elapsed_s: float, log: str) -> bool:
        """Whether the limit has passed.

        Args:
            elapsed_s: time since the start; never less than at the call before.
            log: what the server has printed so far.
        """
        since_s, self._last_s = elapsed_s - self._last_s, elapsed_s
        if self._warms_up and _WARMING in log and not _WARMED.search(log):
            self._stood_s += since_s
        if elapsed_s - self._stood_s <= self._limit_s:
            return False
        # A log without such lines does not show a warm-up that goes on.
        quiet = self._warms_up and _LOG_SHOWS_STEPS not in log
        return not quiet or elapsed_s > self._limit_s + TOTAL_S + STEP_S


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
        self._given_up = threading.Event()
        self.answered = False
        self.failure: UsageError | None = None

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="pasture-probe", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._given_up.set()

    def _run(self) -> None:
        try:
            while not self.answered and not self._given_up.wait(_POLL_S):
                self.answered = self._ask()
        except (ValueError, http.client.InvalidURL) as error:
            self.failure = UsageError(
                f"{self._method} {self._path} cannot be sent: {error}",
                hint="check the first --url and the headers",
            )

    def _ask(self) -> bool:
        """No limit of time: the connection ends with the server, if not before."""
        connection = http.client.HTTPConnection(LOOPBACK, self._port)
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
