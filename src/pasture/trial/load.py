"""The load of a run: a process of its own that sends it, and the files exchanged with that.

A list of URLs is sent by `client.closed_loop`, a locustfile by the user's Locust with
`client.locust_plugin`. gevent patches what it finds, so this process must never import it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pasture.errors import MissingExtra, UsageError
from pasture.launch.ports import LOOPBACK
from pasture.launch.session import Group, environment, last_exception, tail
from pasture.trial.equipment import LOCUST_HINT, Equipment
from pasture.trial.measurement import LoadFigures, load_figures
from pasture.trial.plan import TrialPlan
from pasture.trial.responses import UrlAnswers
from pasture.trial.server import RunFiles, headers_of
from pasture.trust import private_files
from pasture.warmup import skeleton

_CLIENT = Path(__file__).parent / "client"
_LOOP = _CLIENT / "closed_loop.py"
_PLUGIN = _CLIENT / "locust_plugin.py"
_STARTER = _CLIENT / "locust_starter.py"

HasEnded = Callable[[], bool]


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


def loop_settings(plan: TrialPlan, requests: int, port: int, files: RunFiles) -> dict[str, Any]:
    """The settings of the closed loop."""
    return {
        **_settings(plan, requests, files),
        "address": [LOOPBACK, port],
        "users": plan.users,
        "walk": [[r.method, r.path, headers_of(r, plan)] for r in plan.urls],
    }


def locust_settings(plan: TrialPlan, requests: int, port: int, files: RunFiles) -> dict[str, Any]:
    """The settings of Locust's starter and plug-in."""
    assert plan.locustfile is not None
    return {
        **_settings(plan, requests, files),
        "arguments": [
            "--headless", "--only-summary",
            "--locustfile", f"{_PLUGIN},{plan.locustfile.resolve()}",
            "--host", f"http://{LOOPBACK}:{port}",
            "--users", str(plan.users), "--spawn-rate", str(plan.users),
            "--exit-code-on-error", "0", "--loglevel", "WARNING",
        ],
        "log_file": str(files.log),
        "ended_file": str(files.load_ended),
    }  # fmt: skip


def _settings(plan: TrialPlan, requests: int, files: RunFiles) -> dict[str, Any]:
    return {
        "requests": requests,
        "progress_file": str(files.progress),
        "skeleton_file": str(Path(skeleton.__file__).absolute()),
        "result_file": str(files.load_result),
        "request_timeout_s": plan.server_timeout_s,
    }


class LoadGenerator:
    """The loads of a trial, one after the other. Locust is imported for the first of them."""

    def __init__(self, plan: TrialPlan, equipment: Equipment) -> None:
        self._plan, self._equipment = plan, equipment
        self._starter: Group | None = None
        self._orders = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @contextmanager
    def load(self, requests: int, port: int, files: RunFiles) -> Iterator[HasEnded]:
        """Send `requests` requests to a port; nothing of it runs any more when the block ends.

        Yields:
            A function that says whether the load has ended.
        """
        by_loop = self._plan.locustfile is None
        settings_of = loop_settings if by_loop else locust_settings
        settings = settings_of(self._plan, requests, port, files)
        private_files.write(files.load_settings, json.dumps(settings))
        with (_by_loop if by_loop else self._by_locust)(files) as has_ended:
            yield has_ended

    @contextmanager
    def _by_locust(self, files: RunFiles) -> Iterator[HasEnded]:
        if self._starter is not None and self._starter.exit_code() is None:
            private_files.create(files.log).close()
        else:
            self._start(files)
        starter = self._starter
        assert starter is not None
        os.write(self._orders, f"{json.dumps(str(files.load_settings))}\n".encode())
        try:
            yield lambda: files.load_ended.exists() or starter.exit_code() is not None
        finally:
            if not files.load_ended.exists() or starter.members() != (starter.pid,):
                self._end()

    def _start(self, files: RunFiles) -> None:
        self._end()
        fifo = files.directory / "loads"
        os.mkfifo(fifo, private_files.FILE_MODE)
        self._orders = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)  # it never waits for the other end
        command = [self._equipment.locust or sys.executable, str(_STARTER), str(fifo)]
        variables = environment({}, without=("LOCUST_",))
        self._starter = Group(command, log=files.log, env=variables)

    def _end(self) -> None:
        if self._starter is not None:
            self._starter.end()
            self._starter = None
        if self._orders >= 0:
            os.close(self._orders)
            self._orders = -1


@contextmanager
def _by_loop(files: RunFiles) -> Iterator[HasEnded]:
    """Our own load, which nothing of the application's environment can disturb."""
    command = [sys.executable, "-I", "-S", str(_LOOP), str(files.load_settings)]
    with Group(command, log=files.log, env=environment({})) as group:
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
