"""The load of a run: a process of its own that sends it, and the files exchanged with that.

A list of URLs is sent by `client.closed_loop`, a locustfile by the user's Locust with
`client.locust_plugin`. gevent patches what it finds, so this process must never import it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasture.errors import MissingExtra, UsageError
from pasture.launch.ports import LOOPBACK
from pasture.launch.session import Group, environment, last_exception, tail
from pasture.trial.equipment import LOCUST_HINT, Equipment
from pasture.trial.measurement import LoadFigures, load_figures
from pasture.trial.plan import TrialPlan
from pasture.trial.responses import UrlAnswers
from pasture.trial.server import RunFiles, headers_of
from pasture.trust import private_files

_CLIENT = Path(__file__).parent / "client"
_LOOP = _CLIENT / "closed_loop.py"
_PLUGIN = _CLIENT / "locust_plugin.py"

HasEnded = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a load that ran to its end."""

    figures: LoadFigures
    answers: dict[str, UrlAnswers]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    done: int  # requests that have ended, whatever their outcome
    answered: int  # those among them that had an answer


def locust_arguments(plan: TrialPlan, port: int) -> list[str]:
    """The arguments of Locust."""
    assert plan.locustfile is not None
    return [
        "--headless", "--only-summary",
        "--locustfile", f"{_PLUGIN},{plan.locustfile.resolve()}",
        "--host", f"http://{LOOPBACK}:{port}",
        "--users", str(plan.users), "--spawn-rate", str(plan.users),
        "--exit-code-on-error", "0", "--loglevel", "WARNING",
    ]  # fmt: skip


def _settings(plan: TrialPlan, requests: int, port: int, files: RunFiles) -> dict[str, Any]:
    """The settings of the closed loop; those of Locust's plug-in are among them."""
    return {
        "address": [LOOPBACK, port],
        "users": plan.users,
        "walk": [[r.method, r.path, headers_of(r, plan)] for r in plan.urls],
        "requests": requests,
        "progress_file": str(files.progress),
        "result_file": str(files.load_result),
        "request_timeout_s": plan.server_timeout_s,
    }


@contextmanager
def sending(
    plan: TrialPlan, equipment: Equipment, requests: int, port: int, files: RunFiles
) -> Iterator[HasEnded]:
    """Send `requests` requests to a port; nothing of it runs any more when the block ends.

    Yields:
        A function that says whether the load has ended.
    """
    private_files.write(files.load_settings, json.dumps(_settings(plan, requests, port, files)))
    if plan.locustfile is None:
        # Nothing of the working directory or of the application's environment is imported.
        command = [sys.executable, "-I", "-S", str(_LOOP), str(files.load_settings)]
        variables = environment({})
    else:
        command = [
            equipment.locust or sys.executable,
            "-m",
            "locust",
            *locust_arguments(plan, port),
        ]
        variables = environment({"PASTURE_LOAD": str(files.load_settings)}, without=("LOCUST_",))
    with Group(command, log=files.log, env=variables) as group:
        yield lambda: group.exit_code() is not None


def read_progress(files: RunFiles) -> Progress | None:
    """Progress of the load, None before it has started."""
    try:
        done, _, answered = files.progress.read_text(encoding="ascii").partition(" ")
    except FileNotFoundError:
        return None
    return Progress(int(done or 0), int(answered or 0))


def read_result(plan: TrialPlan, equipment: Equipment, files: RunFiles) -> LoadResult:
    """Read the files of a load that has ended.

    Raises:
        MissingExtra: the load's interpreter has no Locust.
        UsageError: the load never began, most likely for a mistake in the locustfile.
    """
    try:
        result = json.loads(files.load_result.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # it never began to write, or was ended meanwhile
        raise _load_failed(plan, equipment, _log(files)) from None
    answers = {url: _url_answers(found) for url, found in result["answers"].items()}
    if not result["requests"]:
        raise _load_failed(plan, equipment, _log(files))
    failures = sum(found.failures for found in answers.values())
    figures = load_figures(result["latencies_ms"], failures, result["seconds"])
    return LoadResult(figures, answers, tuple(result["paths"]))


def _log(files: RunFiles) -> str:
    return files.log.read_text(encoding="utf-8", errors="replace")


def _url_answers(found: Mapping[str, Any]) -> UrlAnswers:
    statuses = {int(status): count for status, count in found["statuses"].items()}
    return UrlAnswers(
        statuses, found["bodies"], found["error"], found["timeouts"], found["skeletons"]
    )


def _load_failed(plan: TrialPlan, equipment: Equipment, log: str) -> MissingExtra | UsageError:
    if "No module named locust" in log:
        return MissingExtra(f"{equipment.locust} has no Locust", hint=LOCUST_HINT)
    source = plan.locustfile or "the list of URLs"
    reason = last_exception(log)
    return UsageError(
        f"the load from {source} sent no request" + (f": {reason}" if reason else ""),
        hint="the log of the load ends with\n" + tail(log),
    )
