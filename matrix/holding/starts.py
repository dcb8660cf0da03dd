"""One start of a server whose application holds something, and what its workers answer."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix.engines.environments import python_for
from matrix.environments import REPOSITORY
from matrix.holding.echo import echoing
from matrix.redis_server import redis_server
from pasture.errors import ServerFailed
from pasture_tools.launch.ports import free_port
from pasture_tools.launch.session import Group, environment

PROGRAMS = REPOSITORY / "tests" / "programs"
MODES: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "default": (),
    "auto 1": ("--auto={auto}",),
    "auto 2": ("--auto={auto}",),
    "warm": ("--warm", "/"),
    "refork": ("--refork", "2"),
}
"""Options of `pasture run`, in the order of the starts."""

_GUNICORN = ("gunicorn", "-w", "2", "-t", "120", "-b", "127.0.0.1:{port}")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "gunicorn": (*_GUNICORN, "holding_app:app"),
    "gthread": (*_GUNICORN, "-k", "gthread", "--threads", "2", "holding_app:app"),
    "gevent": (*_GUNICORN, "-k", "gevent", "holding_app:app"),
    "uvicorn worker": (*_GUNICORN, "-k", "uvicorn_worker.UvicornWorker", "holding_app:asgi"),
    "uvicorn": ("uvicorn", "holding_app:asgi", "--workers", "2", "--port", "{port}"),
    "granian": (
        *("granian", "--interface", "asgi", "--workers", "2", "--port", "{port}"),
        "holding_app:asgi",
    ),
    "hypercorn": ("hypercorn", "holding_app:asgi", "--workers", "2", "-b", "127.0.0.1:{port}"),
    "uwsgi": (
        *("uwsgi", "--http-socket", "127.0.0.1:{port}", "--master", "--processes", "2"),
        *("--need-app", "--enable-threads", "--module", "holding_app:app"),
    ),
    "celery": ("celery", "-A", "holding_tasks", "worker", "-c", "2", "-l", "info"),
}
HOST = "shop.example"
ROUNDS = 6
"""Of 40 requests each; two, unless one worker alone has answered by then."""

START_S, ANSWER_S = 60.0, 30.0
_PLAIN = re.compile(r"no seal: plain, because (.*)")
_OWN = re.compile(r"\d+")
_ASK = """
import json, holding_tasks
jobs = [holding_tasks.ask.delay("shop.example") for _ in range(40)]
for job in jobs:
    print(json.dumps(job.get(timeout=60)))
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one start came to: what was wrong, each thing once, and why it was plain; "" if not."""

    wrong: tuple[str, ...]
    why_plain: str = ""


@dataclass(frozen=True, slots=True)
class Holding:
    """A thing that is held, when it comes to be held, and the server."""

    held: str
    at: str
    engine: str

    def outcomes(self, modes: Sequence[str]) -> Iterator[tuple[str, Outcome]]:
        """Start it in each mode, one after the other."""
        folder = Path(tempfile.mkdtemp(prefix="holding-"))
        try:
            for mode in modes:
                if mode != "refork" or COMMANDS[self.engine][0] == "gunicorn":
                    yield mode, self._outcome(mode, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _outcome(self, mode: str, top: Path) -> Outcome:
        folder = top / mode.replace(" ", "-")
        folder.mkdir()
        python, port = python_for("holding"), free_port()
        with echoing(folder / "echo") as echo, self._broker(folder) as broker:
            named = {"HOLDS": self.held, "HELD_AT": self.at, "HELD_IN": str(folder)}
            named |= {"HELD_PORT": str(free_port() if self.held == "port" else echo)}
            named |= {"HELD_BROKER": broker, "PYTHONPATH": str(PROGRAMS), "HOME": str(folder)}
            path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
            env = environment({**named, "PATH": path, "XDG_RUNTIME_DIR": str(folder)})
            program, *words = [word.format(port=port) for word in COMMANDS[self.engine]]
            command = [str(python.with_name(program)), *words]
            if mode != "plain":
                options = [one.format(auto=top / "names.auto") for one in MODES[mode]]
                command = [str(python), "-m", "pasture", "run", *options, program, *words]
            with Group(command, log=folder / "log", env=env, cwd=folder) as group:
                answers = self._answers(group, port, env, python, mode)
                found = _PLAIN.search(group.log)
            return Outcome(wrong(answers), found[1] if found else "")

    @contextmanager
    def _broker(self, folder: Path) -> Iterator[str]:
        if self.engine != "celery":
            yield ""
            return
        with redis_server(folder) as url:
            yield url

    def _answers(
        self, group: Group, port: int, env: Mapping[str, str], python: Path, mode: str
    ) -> list[Any]:
        if self.engine == "celery":
            ask = [str(python), "-c", _ASK]
            done = subprocess.run(
                ask, env={**env, "HELD_AT": "request"}, capture_output=True, text=True, timeout=120
            )
            return [json.loads(line) for line in done.stdout.splitlines()] or [done.stderr[-200:]]

        def listens() -> bool:
            if group.exit_code() is not None:
                raise ServerFailed("it ended", hint="")
            return not isinstance(_get(port), str)

        try:
            group.wait_for(listens, "no answer", timeout_s=START_S)
        except ServerFailed as error:
            return [str(error).splitlines()[0]]
        answers: list[Any] = []
        with ThreadPoolExecutor(6) as pool:
            for number in range(ROUNDS):
                answers += pool.map(lambda _: _get(port), range(40))
                pids = {one["pid"] for one in answers if not isinstance(one, str)}
                if number and len(pids) > 1:
                    break
                if mode == "refork" and "plain, because" not in group.log:
                    time.sleep(4)
        return answers


def _get(port: int) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Host": HOST})
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return json.load(answer)
    except OSError as error:
        return _OWN.sub("N", str(error))


def wrong(answers: Sequence[Any]) -> tuple[str, ...]:
    """What is not as an application with workers of its own expects. Pure."""
    failed = {one for one in answers if isinstance(one, str)}
    found = [one for one in answers if not isinstance(one, str)]
    leaders = len({one["pid"] for one in found if one["leader"]})
    texts = Counter(one["there"] for one in found if isinstance(one["there"], str))
    given = {
        text: number for text, number in texts.items() if text.startswith(("id ", "password "))
    }
    words = {_OWN.sub("N", text)[:100] for text in texts if text not in given and text != HOST}
    return tuple(
        filter(
            None,
            (
                *sorted(failed),
                *sorted(words),
                "not there" if any(one["there"] is False for one in found) else "",
                "given twice" if any(number > 1 for number in given.values()) else "",
                "several leaders" if leaders > 1 else "",
            ),
        )
    )
