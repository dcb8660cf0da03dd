"""The load of a run: the process that sends it, and the files exchanged with that process.

The program is `client.closed_loop`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasture.errors import UsageError
from pasture.trust import private_files
from pasture_tools.launch.ports import LOOPBACK
from pasture_tools.launch.session import Group, environment, last_exception, tail
from pasture_tools.trial.measurement import LoadFigures, load_figures
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.responses import UrlAnswers
from pasture_tools.trial.server import RunFiles, headers_of

_LOOP = Path(__file__).parent / "client" / "closed_loop.py"

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


def _settings(plan: TrialPlan, requests: int, port: int, files: RunFiles) -> dict[str, Any]:
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
def sending(plan: TrialPlan, requests: int, port: int, files: RunFiles) -> Iterator[HasEnded]:
    """Send `requests` requests to a port; no process of the load outlives the block.

    Yields:
        A function that says whether the load has ended.
    """
    private_files.write(files.load_settings, json.dumps(_settings(plan, requests, port, files)))
    # Nothing of the working directory or of the application's environment is imported.
    command = [sys.executable, "-I", "-S", str(_LOOP), str(files.load_settings)]
    with Group(command, log=files.log, env=environment({})) as group:
        yield lambda: group.exit_code() is not None


def read_progress(files: RunFiles) -> Progress | None:
    """The progress of the load, None before it has started."""
    try:
        done, _, answered = files.progress.read_text(encoding="ascii").partition(" ")
    except FileNotFoundError:
        return None
    return Progress(int(done or 0), int(answered or 0))


def read_result(files: RunFiles) -> LoadResult:
    """Read the files of a load that has ended. Raises UsageError if it never started."""
    try:
        result = json.loads(files.load_result.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # it never began to write, or was ended meanwhile
        log = files.log.read_text(encoding="utf-8", errors="replace")
        reason = last_exception(log)
        raise UsageError(
            "the load sent no request" + (f": {reason}" if reason else ""),
            hint="the log of the load ends with\n" + tail(log),
        ) from None
    answers = {
        url: UrlAnswers(
            {int(status): count for status, count in found["statuses"].items()},
            found["bodies"], found["error"], found["timeouts"], found["skeletons"],
        )
        for url, found in result["answers"].items()
    }  # fmt: skip
    failures = sum(found.failures for found in answers.values())
    figures = load_figures(result["latencies_ms"], failures, result["seconds"])
    return LoadResult(figures, answers, tuple(result["paths"]))
