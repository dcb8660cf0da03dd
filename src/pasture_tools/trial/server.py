"""One server under one policy: its command line, its environment, its first answer.

Owns how a policy reaches the server. The server itself is `pasture run SERVER ...`, or its own
command under `plain` and on some servers `stock`, which the user could start by hand in the same
way.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from pasture import off
from pasture.errors import AppImportFailed, MissingExtra, PastureError, UsageError
from pasture.log_lines import WARM_UP_END, WARM_UP_STEP, find
from pasture.serving import app_name
from pasture.serving.settings import to_environment
from pasture.trust import private_files
from pasture.trust.untrusted_text import printable
from pasture.warmup.guard import STEP_S, TOTAL_S
from pasture.warmup.requests import USER_AGENT, Header, Request
from pasture_tools.display.progress import Moved, OnEvent
from pasture_tools.display.units import duration
from pasture_tools.launch.ports import LOOPBACK
from pasture_tools.launch.session import Group, environment
from pasture_tools.trial import diagnosis
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.servers.facts import PLAIN, STOCK, TRIED, Phrases, Start

_POLL_S = 0.05
_WORKERS_S = 10.0
_BETWEEN_WORDS_S = 10.0
_MAX_LINE_CHARACTERS = 160

Pause = Callable[[float], None]


class RunFiles:
    """Files of the server and the load generator of one run, each with its own log."""

    def __init__(self, directory: Path, log: Path) -> None:
        self.directory, self.log = directory, log
        self.warm = directory / "warm.txt"  # requests and headers, for the server
        self.report = directory / "report.json"  # written by the server's process
        self.load_settings = directory / "load.json"  # for the load generator
        self.progress = directory / "progress"  # the load generator's: requests answered, decimal
        self.load_result = directory / "result.json"  # complete once the load generator has ended


def require_server(plan: TrialPlan) -> None:
    """Raise MissingExtra if the application's environment, which is ours, lacks the server."""
    if find_spec(plan.facts.module) is None:
        raise MissingExtra(
            f"{plan.facts.module} is not installed in the application's environment",
            hint=f"pip install '{plan.facts.install}', or name a server that is: --server",
        )


def server_command(plan: TrialPlan, policy: str, port: int, files: RunFiles) -> list[str]:
    """The command line that serves an application under a policy."""
    start = Start(
        app=plan.app,
        policy=policy,
        workers=plan.workers,
        host=LOOPBACK,
        port=port,
        arguments=plan.server_args,
        folder=files.directory,
    )
    return plan.facts.command(start)


def server_environment(plan: TrialPlan, policy: str, files: RunFiles) -> dict[str, str]:
    """Our environment, the user's additions, and what gives the server its policy and files.

    Variables of a surrounding `pasture` are removed: a trial must not inherit a policy. So are
    variables that give the server options that are not for a trial.
    """
    ours = to_environment(policy=policy, warm_file=files.warm, report_file=files.report)
    if policy == PLAIN:  # a configuration may have pasture's line
        ours = {off.VARIABLE: "off"}
    whole = environment({**plan.env, **ours, "PYTHONUNBUFFERED": "1"})
    return {name: value for name, value in whole.items() if not plan.facts.reads(name)}


def write_warm_up(files: RunFiles, plan: TrialPlan) -> None:
    """Write the requests that a policy with a warm-up serves before the fork."""
    lines = [*map(str, plan.warm_up), *(f"{name}: {value}" for name, value in plan.headers)]
    private_files.write(files.warm, "".join(f"{line}\n" for line in lines))


def read_report(files: RunFiles) -> Mapping[str, Any] | None:
    """The server's report of its seal; None unless it is a JSON object."""
    try:
        report = json.loads(files.report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return report if isinstance(report, dict) else None


def wait_until_it_answers(
    plan: TrialPlan,
    server: Group,
    port: int,
    pause: Pause,
    *,
    policy: str = STOCK,
    emit: OnEvent = lambda event: None,
) -> float:
    """Wait for the first answer and for all workers; return the seconds it took.

    Any answer will do: the load finds out whether its URLs work. The time
    of a warm-up that the log shows does not count, up to the warm-up's own limits.

    Args:
        emit: called every ten seconds while there is no answer yet, with the end of the log.

    Raises:
        AppImportFailed, PortTaken, ServerFailed: the server ended, or all its workers end.
        AppDidNotAnswer: it runs, and did not answer in time.
        UsageError: the request cannot be sent.
    """
    start = time.monotonic()
    phrases = plan.facts.phrases
    warmed_s = 0.0  # when its log last showed the warm-up
    next_word_s = _BETWEEN_WORDS_S
    with _Probe(plan, port) as probe:
        while not probe.answered:
            if probe.failure is not None:
                raise probe.failure
            code = server.exit_code()
            if code is not None:
                raise _with_guess(
                    plan, diagnosis.ended_early(plan.app, server.log, code, port, phrases)
                )
            if have_workers_died(server.log, phrases, plan.workers):
                raise _with_guess(plan, diagnosis.workers_died(plan.app, server.log, phrases))
            elapsed_s = time.monotonic() - start
            if elapsed_s >= next_word_s:
                emit(Moved(phase=_still_waiting(elapsed_s, server.log)))
                next_word_s += _BETWEEN_WORDS_S
            log = server.log
            if TRIED[policy].warms_up and find(WARM_UP_STEP, log) and not find(WARM_UP_END, log):
                warmed_s = min(elapsed_s, TOTAL_S + STEP_S)
            if elapsed_s - warmed_s > plan.server_timeout_s:
                raise diagnosis.did_not_answer(plan.app, log, plan.server_timeout_s)
            pause(_POLL_S)
    seconds = time.monotonic() - start
    _wait_for_workers(plan, server, policy, pause)
    return seconds


def _with_guess(plan: TrialPlan, error: PastureError) -> PastureError:
    """An import error, with a guess which application was meant."""
    meant = app_name.did_you_mean(plan.app, plan.chdir or Path())
    if not isinstance(error, AppImportFailed) or not meant or meant in error.hint:
        return error
    return AppImportFailed(error.message, hint=f"{meant} {error.hint}")


def _still_waiting(elapsed_s: float, log: str) -> str:
    last = next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "")
    waited = f"no answer after {duration(elapsed_s)}"
    if not last:
        return f"{waited}, and nothing in its log"
    return f"{waited}; its log ends with: {printable(last, _MAX_LINE_CHARACTERS)}"


def have_workers_died(log: str, phrases: Phrases, workers: int) -> bool:
    """Whether as many workers have ended as the server has: later ones will fail, too."""
    died = len(phrases.worker_died.findall(log))
    return 0 < died >= workers


def _wait_for_workers(plan: TrialPlan, server: Group, policy: str, pause: Pause) -> None:
    """Wait until all workers are there and, where the log shows it, have started."""
    find, started = plan.facts.workers_of(policy), plan.facts.phrases.started
    shown = bool(started) and started in server.log
    deadline = time.monotonic() + (plan.server_timeout_s if shown else _WORKERS_S)

    def all_there() -> bool:
        there = len(find(server.pid)) >= plan.workers
        return there and (not shown or server.log.count(started) >= plan.workers)

    while not all_there() and server.exit_code() is None and time.monotonic() < deadline:
        pause(_POLL_S)


def headers_of(request: Request, plan: TrialPlan) -> tuple[Header, ...]:
    """The headers that a request of the load carries: the plan's, and its own host.

    The user agent is a warm-up's: a site may end a session that comes from two browsers.
    """
    own = () if request.host is None else (("Host", request.host),)
    if any(name.lower() == "user-agent" for name, _ in plan.headers):
        return (*plan.headers, *own)
    return (("User-Agent", USER_AGENT), *plan.headers, *own)


class _Probe:
    """Sends one request until it is answered, in a thread, so that waiting can be interrupted.

    A slow application gets the whole time for its first answer: a request under way is
    never given up for a later one.
    """

    def __init__(self, plan: TrialPlan, port: int) -> None:
        first = plan.urls[0]
        self._method = first.method if first.method in ("GET", "HEAD") else "GET"
        self._path = first.path
        self._headers = dict(headers_of(first, plan))
        self._port = port
        self._silent_errors = plan.facts.silent_errors
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
        """Send the request without a timeout: the connection ends with the server at the latest."""
        connection = http.client.HTTPConnection(LOOPBACK, self._port)
        try:
            connection.request(self._method, self._path, headers=self._headers)
            connection.getresponse().read()
        except http.client.InvalidURL:
            raise
        except http.client.RemoteDisconnected:
            return self._silent_errors
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True
