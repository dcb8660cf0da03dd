"""The load generator: Locust in a process of its own, and the files exchanged with it.

Owns Locust's command line and the two files of `locust_plugin`. gevent patches what it
finds, so it must never be imported into this process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasture.errors import MissingExtra, UsageError
from pasture.trial import diagnosis
from pasture.trial.measurement import LoadFigures, load_figures
from pasture.trial.plan import LOOPBACK, TrialPlan
from pasture.trial.responses import UrlAnswers
from pasture.trial.server import RunFiles, headers_of
from pasture.trial.session import Group, environment
from pasture.trust import private_files

_HERE = Path(__file__).parent
_PLUGIN = _HERE / "locust_plugin.py"
_USER = _HERE / "locust_user.py"


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load that ran to its end brought back."""

    figures: LoadFigures
    answers: dict[str, UrlAnswers]
    paths: tuple[str, ...]


def load_command(plan: TrialPlan, port: int) -> list[str]:
    """The command line of Locust; a user's locustfile stands in for our own user class."""
    user = _USER if plan.locustfile is None else plan.locustfile.resolve()
    return [
        plan.load_python, "-m", "locust", "--headless", "--only-summary",
        "--locustfile", f"{_PLUGIN},{user}", "--host", f"http://{LOOPBACK}:{port}",
        "--users", str(plan.users), "--spawn-rate", str(plan.users),
        "--exit-code-on-error", "0", "--loglevel", "WARNING",
    ]  # fmt: skip


def start_load(plan: TrialPlan, requests: int, port: int, files: RunFiles) -> Group:
    """Start sending `requests` requests to a port."""
    settings = {
        "requests": requests,
        "progress_file": str(files.progress),
        "result_file": str(files.load_result),
        "walk": [[r.method, r.path, dict(headers_of(r, plan))] for r in plan.urls],
    }
    private_files.write(files.load_settings, json.dumps(settings))
    told = environment({"PASTURE_LOAD": str(files.load_settings)}, without=("LOCUST_",))
    return Group(load_command(plan, port), log=files.log, env=told)


def read_progress(files: RunFiles) -> int | None:
    """Requests answered so far, None before the load has begun."""
    try:
        return int(files.progress.read_text(encoding="ascii") or 0)
    except FileNotFoundError:
        return None


def read_result(plan: TrialPlan, files: RunFiles) -> LoadResult:
    """Read what a load left that has ended.

    Raises:
        MissingExtra: the load's interpreter has no Locust.
        UsageError: the load never began, most likely for a mistake in the locustfile.
    """
    try:
        result = json.loads(files.load_result.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # it never began to write, or was ended meanwhile
        raise _load_failed(plan, _log(files)) from None
    answers = {url: _url_answers(found) for url, found in result["answers"].items()}
    if not result["requests"]:
        raise _load_failed(plan, _log(files))
    failures = sum(found.failures for found in answers.values())
    figures = load_figures(result["latencies_ms"], failures, result["seconds"])
    return LoadResult(figures, answers, tuple(result["paths"]))


def _log(files: RunFiles) -> str:
    return files.log.read_text(encoding="utf-8", errors="replace")


def _url_answers(found: Mapping[str, Any]) -> UrlAnswers:
    statuses = {int(status): count for status, count in found["statuses"].items()}
    return UrlAnswers(statuses, found["bodies"], found["error"])


def _load_failed(plan: TrialPlan, log: str) -> MissingExtra | UsageError:
    if "No module named locust" in log:
        return MissingExtra(
            f"{plan.load_python} has no Locust", hint="pip install 'pasture[trial]'"
        )
    source = plan.locustfile or "the list of URLs"
    reason = diagnosis.last_exception(log)
    return UsageError(
        f"the load from {source} sent no request" + (f": {reason}" if reason else ""),
        hint="Locust's log ends with\n" + diagnosis.tail(log),
    )
