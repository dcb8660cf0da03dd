"""One start of a server: it is asked, something happens to it, it is asked again, it ends.

What each worker notes in a step is gathered over the workers, in order of the values: which of them
answered first is chance. With it is gathered whether all have the same.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path

import celery
from alike import Notes, Outcome
from application import Server, words
from rounds import HANGS
from ways import OURS, notes_of

from matrix.holding.echo import echoing
from matrix.holding.starts import COMMANDS, PROGRAMS
from matrix.redis_server import redis_server
from pasture.errors import ServerFailed
from pasture_tools.launch.session import Group, environment

from pasture_tools.launch.ports import free_port  # isort: skip

WORKERS = 2
LIMIT_S, ANSWER_S = 60.0, 20.0
LEFT_S = 10.0  # for a tracker of multiprocessing, which ends after its server
AT_ONCE = 6
OPTIONS: Mapping[str, tuple[str, ...]] = {"auto": ("--auto={auto}",), "refork": ("--refork", "2")}
ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Warning)\b.*", re.M)


class Serving:
    """A started server: its workers by their answers."""

    def __init__(self, group: Group, port: int, broker: str) -> None:
        self.group, self.port = group, port
        self.tasks = celery.Celery(broker=broker, backend=broker) if broker else None
        self.pids: set[int] = set()
        self.expected = WORKERS

    def _get(self, step: int) -> int:
        """The pid of who answered; 0 without an answer."""
        with suppress(OSError, ValueError):
            address = f"http://127.0.0.1:{self.port}/{step}"
            with urllib.request.urlopen(address, timeout=ANSWER_S) as answer:
                return int(answer.read())
        return 0

    def _answers(self, step: int) -> set[int]:
        if self.tasks is None:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                return set(pool.map(self._get, [step] * 2 * AT_ONCE)) - {0}
        jobs = [self.tasks.send_task("take", [step]) for _ in range(2 * AT_ONCE)]
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline and not all(job.ready() for job in jobs):
            time.sleep(0.05)
        return {int(job.result) for job in jobs if job.successful()}

    def ask(self, step: int, gone: set[int]) -> str:
        """Until all workers have answered that there are; says how many have."""
        deadline, self.pids = time.monotonic() + LIMIT_S, set()
        while len(self.pids) < self.expected and time.monotonic() < deadline:
            if self.group.exit_code() is not None:
                return f"ended with {self.group.exit_code()}"
            self.pids |= self._answers(step) - gone
        return f"{len(self.pids)} of {self.expected}"

    def move(self, name: str) -> set[int]:
        """Have something happen; the workers that are gone then."""
        before, gone = set(self.pids), set(self.pids)
        if name in ("KILL", "TERM"):
            gone = set(sorted(before)[:1])
            for pid in gone:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.Signals[f"SIG{name}"])
        else:
            self.expected = max(1, self.expected + {"TTIN": 1, "TTOU": -1}.get(name, 0))
            self.group.send_signal(signal.Signals[f"SIG{name}"])
            gone = gone if name == "HUP" else set()
        stay = len(before) - len(gone) - (name == "TTOU" and len(before) > 1)
        deadline = time.monotonic() + LIMIT_S
        while sum(map(runs, before)) > stay and time.monotonic() < deadline:
            time.sleep(0.05)
        return {pid for pid in before if not runs(pid)}


def runs(pid: int) -> bool:
    """Whether a process is there that has not ended."""
    with suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def outcome(mode: str, one: Server, folder: Path) -> Outcome:
    """How a server does in a mode; its second start where the first one writes a file for it."""
    if mode == "auto":
        _outcome(mode, one, folder)
    return _outcome(mode, one, folder)


def _outcome(mode: str, one: Server, top: Path) -> Outcome:
    folder, port, started = top / "work", free_port(), top / "started"
    for each in (folder, started):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir(parents=True)
    (folder / "application.py").write_text(one.source)
    broker_of = redis_server(started) if one.engine == "celery" else nullcontext("")
    with echoing(started / "echo") as echo, broker_of as broker:
        (folder / "echo").symlink_to(started / "echo")
        named = {"HELD_IN": f"{folder}", "HELD_PORT": f"{echo}", "HOLDS": "", "BROKER": broker}
        named |= {"PYTHONPATH": f"{folder}:{PROGRAMS}", "HOME": f"{started}", "LANG": "C.UTF-8"}
        named |= {"PASTURE": "seal"} if mode == "seal" else {}
        named |= {"PYTHONDONTWRITEBYTECODE": "1", "XDG_RUNTIME_DIR": f"{started}"}
        named["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        command = words(COMMANDS[one.engine], port)
        command[0] = str(Path(sys.executable).with_name(command[0]))
        if mode not in ("plain", "seal"):
            learned = top / f"{one.number}.auto"
            options = [word.format(auto=learned) for word in OPTIONS.get(mode, ())]
            command[:1] = [sys.executable, "-m", "pasture", "run", *options, Path(command[0]).name]
        log, environ = started / "log", environment(named)
        with Group(command, log=log, env=environ, cwd=folder) as group:
            status, texts = _live(Serving(group, port, broker), one)
            deadline = time.monotonic() + LEFT_S
            while group.members() and time.monotonic() < deadline:
                time.sleep(0.05)
            texts["left"] = f"{len(group.members())} processes"
            printed = OURS.sub(b"", log.read_bytes()).decode("utf-8", "backslashreplace")
    errors = {re.sub(r"\d+", "N", line) for line in ERROR.findall(printed)}
    texts |= {"errors": "\n".join(sorted(errors)), "files": "\n".join(sorted(left_in(folder)))}
    return Outcome(status, texts, dict(gathered(notes_of(folder / "notes"))))


def _live(serving: Serving, one: Server) -> tuple[int, dict[str, str]]:
    """All steps, and SIGTERM; the exit status and how many workers have answered."""
    group, texts = serving.group, {}
    gone: set[int] = set()
    deadline = time.monotonic() + LIMIT_S
    while serving.tasks is None and serving._get(0) == 0 and time.monotonic() < deadline:
        if group.exit_code() is not None:
            break
        time.sleep(0.1)
    texts["step 0"] = serving.ask(0, gone)
    for step, move in enumerate(one.moves, 1):
        if texts[f"step {step - 1}"].split()[0] == "ended":
            break
        gone |= serving.move(move)
        texts[f"step {step}"] = serving.ask(step, gone)
    group.terminate()
    try:
        return group.wait(LIMIT_S), texts
    except ServerFailed:
        return HANGS, texts


def gathered(notes: Notes) -> Notes:
    """By step in place of by process: all values, and whether they are the same."""
    found = defaultdict(list)
    for (role, number, what), value in notes.items():
        step, _, _ = role.partition(" > ")
        if step.startswith("step "):
            found[step, number, what].append(value)
    several = {
        (step, number, f"{what} of workers"): "equal" if len(set(values)) == 1 else "differ"
        for (step, number, what), values in found.items()
        if len(values) > 1
    }
    return {key: " | ".join(sorted(values)) for key, values in found.items()} | several


def left_in(folder: Path) -> set[str]:
    """Files that a server has left, with their rights and the lines of texts."""
    found = set()
    for path in folder.rglob("*"):
        if path.name not in ("notes", "application.py", "echo") and path.is_file():
            name = re.sub(r"(?<=tmp)\w+|\d+", "N", path.name)
            lines = path.read_text(errors="replace").splitlines() if path.suffix == ".txt" else []
            found |= {f"{name} {path.stat().st_mode:o}", *(f"{name}: {line}" for line in lines)}
    return found
