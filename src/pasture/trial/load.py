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
from pasture.launch.ports import LOOPBACK
from pasture.launch.session import Group, environment, last_exception, tail
from pasture.trial.equipment import Equipment
from pasture.trial.measurement import LoadFigures, load_figures
from pasture.trial.plan import TrialPlan
from pasture.trial.responses import UrlAnswers
from pasture.trial.server import RunFiles, headers_of
from pasture.trust import private_files
from pasture.warmup import skeleton

_HERE = Path(__file__).parent
_PLUGIN = _HERE / "locust_plugin.py"
_USER = _HERE / "locust_user.py"


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a load that ran to its end."""

    figures: LoadFigures
    answers: dict[str, UrlAnswers]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    done: int  # requests that have ended, whatever came of them
    answered: int  # those among them that had an answer


def load_command(plan: TrialPlan, equipment: Equipment, port: int) -> list[str]:
    """The command line of Locust; a user's locustfile stands in for our own user class."""
    user = _USER if plan.locustfile is None else plan.locustfile.resolve()
    return [
        *equipment.locust, "--headless", "--only-summary",
        "--locustfile", f"{_PLUGIN},{user}", "--host", f"http://{LOOPBACK}:{port}",
        "--users", str(plan.users), "--spawn-rate", str(plan.users),
        "--exit-code-on-error", "0", "--loglevel", "WARNING",
    ]  # fmt: skip


def start_load(
    plan: TrialPlan, equipment: Equipment, requests: int, port: int, files: RunFiles
) -> Group:
    """Start sending `requests` requests to a port."""
    settings = {
        "requests": requests,
        "progress_file": str(files.progress),
        "skeleton_file": str(Path(skeleton.__file__).absolute()),
        "result_file": str(files.load_result),
        "request_timeout_s": plan.server_timeout_s,
        "behind": list(equipment.behind) if plan.locustfile is not None else [],
        "walk": [[r.method, r.path, dict(headers_of(r, plan))] for r in plan.urls],
    }
    private_files.write(files.load_settings, json.dumps(settings))
    without = ("LOCUST_", "PYTHON", "VIRTUAL_ENV") if equipment.isolated else ("LOCUST_",)
    variables = environment({"PASTURE_LOAD": str(files.load_settings)}, without=without)
    return Group(load_command(plan, equipment, port), log=files.log, env=variables)


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
        return MissingExtra(
            f"{equipment.locust[0]} has no Locust",
            hint="leave --load-python out, or pip install locust for that interpreter",
        )
    source = plan.locustfile or "the list of URLs"
    reason = last_exception(log)
    return UsageError(
        f"the load from {source} sent no request" + (f": {reason}" if reason else ""),
        hint="Locust's log ends with\n" + tail(log),
    )
