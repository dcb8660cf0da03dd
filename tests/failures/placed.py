"""Programs of which each system call fails by its place: servers under pasture, and commands.

A place is a system call, with the frames of pasture's and gunicorn's code that lead to it
(places.c). Runs in which nothing fails show the places. Each fails the first time and the last time
that it was met; calls that no such code asks for, as those of an import, are one place, of which
some fail. The n-th call of a server is another one in each run, the n-th of a place is not.

A server is asked for pages, and ended. Wrong is what is pasture's: a traceback that ends in
gunicorn is what gunicorn does without pasture, too.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from known import FSTAT, READ, UNREAD, WAKEUP, is_known

from pasture_tools.launch.ports import free_port

HERE = Path(__file__).parent
ARMED = str(HERE / "armed.py")
BIND = "127.0.0.1:{port}"
GUNICORN = ("gunicorn", "--no-control-socket", "-w", "2", "-t", "30", "-b", BIND, "app:application")
IMAGE = ("-m", "pasture", "image", "build", "-o", "app.img", "--preload", "json")
WORKER = """
import os, signal, pasture
held = [[n, {n: str(n)}] for n in range(1000)]
pasture.seal()
pid = os.fork()
if pid:
    print(pid, flush=True)
else:
    held[0].append(0)
signal.pause()
"""
PROGRAM = """
import os
held = [[n, {n: str(n)}] for n in range(1000)]
if pid := os.fork():
    assert os.waitpid(pid, 0)[1] == 0
    open("whole", "w").close()
"""


@dataclass(frozen=True)
class Program:
    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    made: tuple[str, ...] = ()  # files that it makes, if it ends well
    needs_image: bool = False
    is_server: bool = False


def server(*words: str, **variables: str) -> Program:
    return Program(words, variables, is_server=True)


PLACED = {
    "gunicorn": server(ARMED, "run", *GUNICORN),
    "gunicorn_refork": server(ARMED, "run", "--refork", "10", *GUNICORN),
    "gunicorn_auto": server("-m", *GUNICORN, PASTURE="seal"),  # sitecustomize.py arms
    "run": Program((ARMED, "run", "{python}", "program.py"), made=("whole",)),
    "explain": Program((ARMED, "explain", "{worker}")),
    "doctor": Program((ARMED, "doctor", "{parent}")),
    "doctor_start": Program((ARMED, "doctor", "--", "{python}", "worker.py")),
    "doctor_hung": Program((ARMED, "doctor", "--hung", "{worker}")),
    "top": Program((ARMED, "top", "--once", "--interval", "0.1", "{parent}")),
    "image_build": Program((ARMED, *IMAGE[2:]), made=("app.img",)),
    "image_check": Program((ARMED, "image", "show", "--check", "app.img"), needs_image=True),
    "image_show": Program((ARMED, "image", "show", "app.img"), needs_image=True),
}

if importlib.util.find_spec("gunicorn") is None:
    PLACED = {name: program for name, program in PLACED.items() if not program.is_server}

APPLICATION = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "5")])
    return [b"whole"]
"""
SOURCES = {"app.py": APPLICATION, "program.py": PROGRAM, "worker.py": WORKER}
OTHERS = 6
"""Calls of a place that fail where none of pasture's or gunicorn's functions asks for them: the
first, the last, and between."""
LOOKS = 2
"""Runs that look for places: no two of a server do the same."""
INNER = 4
ANY_CALL = (1 << 10) - 1  # as in calls.c
NEVER, ANY_NOTED = 10**9, 1
"""An n that is not reached; as a place, each call counts and its place is noted (calls.c)."""
REQUESTS = 40
START_S, END_S = 90, 90
ALL, NO_START_S = 3, 20  # the mode in which all calls fail, and no server answers
"""A worker of gunicorn's that TERM meets before it has its handlers runs on until gunicorn's
graceful timeout of 30 seconds."""
COMMAND_S = 120
ENDS_SERVER = "Unhandled exception in main loop"
OWN_FRAME = re.compile(r'File "[^"]*?/(src/pasture|packages|site-packages/(?:pasture|gunicorn))')


@dataclass(frozen=True)
class Point:
    """The n-th call of a place."""

    place: int
    n: int
    where: str

    def rank(self, met: set[tuple[int, str]]) -> int:
        inner = self.place & ANY_CALL, " ".join(self.where.split()[:INNER])
        if self.n > 1:
            return 2
        if inner in met:
            return 1
        met.add(inner)
        return 0


def points(places: list[dict[str, Any]]) -> Iterator[Point]:
    """Which calls fail, of the places that a run has met, and how often."""
    for row in places:
        count, steps = row["count"], 1 if row["where"].startswith(" ") else OTHERS - 1
        for n in sorted({1 + (count - 1) * step // steps for step in range(steps + 1)}):
            yield Point(row["place"], n, row["where"])


@dataclass(frozen=True)
class Attempts:
    """One program and one mode: of an environment, with the folder of what was built and found."""

    python: Path
    folder: Path
    entry: str
    mode: int
    slots: queue.SimpleQueue[int]  # a number for each attempt that may run at a time

    @property
    def program(self) -> Program:
        return PLACED[self.entry]

    def points(self) -> list[Point]:
        """Those that the first run of this row has found, so that others go on with the same. The
        first call of each place comes first, and before it one for all that have the same
        innermost frames."""
        kept = self.folder / f"{self.entry}.{self.mode}.places.json"
        if not kept.exists():
            found: dict[int, dict[str, Any]] = {}
            for _ in range(LOOKS):
                line = self.attempt(Point(ANY_NOTED, NEVER, ""))
                if "wrong" in line or line["raised"]:
                    why = line.get("wrong", line["raised"])
                    raise SystemExit(f"{self.entry} without a failure: {why}")
                found |= {row["place"]: row for row in line["places"]}
            kept.write_text(json.dumps(sorted(found.values(), key=lambda row: row["where"])))
        met: set[tuple[int, str]] = set()
        found_points = [*points(json.loads(kept.read_text()))]
        return sorted(found_points, key=lambda point: point.rank(met))

    def run(self, first: int, step: int) -> Generator[dict[str, Any]]:
        """A line for each step-th point from the one of this number on, and one for the end."""
        every = self.points()
        chosen = every[first - 1 :: step]
        with ThreadPoolExecutor() as pool:
            try:
                lines = pool.map(self.attempt, chosen)
                for n, point, line in zip(count(first, step), chosen, lines):
                    del line["places"]
                    yield line | {"n": n, "where": f"{point.n}: {point.where}"}
            finally:
                pool.shutdown(cancel_futures=True)
        yield {"n": len(every) + 1, "failed": 0, "raised": ""}

    def attempt(self, point: Point) -> dict[str, Any]:
        slot = self.slots.get()
        try:
            return Attempt(self, self.folder / f"placed-{self.entry}-{slot}").run(point)
        finally:
            self.slots.put(slot)


@dataclass(frozen=True)
class Attempt:
    """One of them, in a folder of its own."""

    of: Attempts
    work: Path

    @property
    def program(self) -> Program:
        return self.of.program

    def run(self, point: Point) -> dict[str, Any]:
        self._prepare()
        with contextlib.ExitStack() as stack:
            port = free_port()
            words = {"port": port, "python": self.of.python}
            if any("{worker}" in word or "{parent}" in word for word in self.program.words):
                words |= stack.enter_context(self._worker())
            process = stack.enter_context(self._started(point, words))
            line: dict[str, Any] = {"failed": -1, "raised": "", "places": []}
            try:
                answers = self.of.mode != ALL or point.n == NEVER
                wrong = use(process, port, answers) if self.program.is_server else wait(process)
                line |= json.loads((self.work / "log").read_text())
            except subprocess.TimeoutExpired:
                wrong = "not at its end in time"
        text = (self.work / "said").read_text(errors="replace")
        line["raised"] = f"status {process.returncode}" if process.returncode else ""
        found = [wrong] if wrong else [*self._faults(process.returncode, text, line["failed"])]
        if not found and line.get("left"):
            found = [f"{line['left']} processes are left"]
        if found:  # that of which nothing is known first, and else all by its own words
            line["wrong"] = min(found, key=lambda words: is_known(words, line["failed"]))
            line["said"] = text[-3000:]
        return line

    def _prepare(self) -> None:
        """A folder with an application, and with an image where one is needed."""
        if not self.work.exists():
            self.work.mkdir()
            for name, text in SOURCES.items():
                (self.work / name).write_text(text)
            if self.program.needs_image:
                command = [self.of.python, *IMAGE]  # variables matter to an image
                environ = self._environ(Point(0, 0, ""))
                environ["LD_PRELOAD"] = str(self.of.folder / "failing.so")
                subprocess.check_call(
                    command, cwd=self.work, env=environ, stdout=subprocess.DEVNULL
                )
        for name in ("log", "said", *self.program.made):
            (self.work / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _worker(self) -> Iterator[dict[str, object]]:
        """A worker that shares its parent's heap, and has written to some of it: their numbers."""
        command = [self.of.python, self.work / "worker.py"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as parent:
            assert parent.stdout is not None
            try:
                yield {"parent": parent.pid, "worker": int(parent.stdout.readline())}
            finally:
                os.killpg(parent.pid, signal.SIGKILL)

    def _environ(self, point: Point) -> dict[str, str]:
        environ = {n: value for n, value in os.environ.items() if not n.startswith("PYTHON")}
        return (
            environ
            | self.program.variables
            | {
                "PYTHONPATH": os.pathsep.join([str(self.of.folder), str(HERE)]),
                "FAILURE_OF": f"{point.n} {self.of.mode} {point.place}",
            }
        )

    @contextlib.contextmanager
    def _started(self, point: Point, words: dict[str, object]) -> Iterator[subprocess.Popen[bytes]]:
        command = [str(self.of.folder / "calls"), "log", "env"]
        command += [f"LD_PRELOAD={self.of.folder / 'failing.so'}", str(self.of.python)]
        command += [word.format(**words) for word in self.program.words]
        with (self.work / "said").open("w") as file:
            process = subprocess.Popen(
                command,
                cwd=self.work,
                env=self._environ(point),
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _is_whole(self, image: Path) -> bool:
        command = [self.of.python, "-m", "pasture", "image", "show", "--json", "-", image]
        return subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0

    def _faults(self, status: int, text: str, failed: int) -> Iterator[str]:
        yield from faults(text, self.program.is_server)
        if status < 0:
            yield f"{signal.Signals(-status).name}\n{text[-3000:]}"
        if status and (not text or (self.program.is_server and "error" not in text.lower())):
            yield f"status {status} without a word"
        if not self.program.is_server:
            kept = {"log", "said", "__pycache__", *SOURCES} | {*self.program.made}
            kept |= {"app.img"} if self.program.needs_image else {*()}
            there = {path.name for path in self.work.iterdir()}
            for name in there - (kept - {*self.program.made} if status else kept):
                path = self.work / name
                if path.suffix == ".img" and self._is_whole(path):
                    continue  # only what is said of it failed
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                yield f"{name} is left"
            if not status and not {*self.program.made} <= there:
                is_unread = self.of.entry == "run" and failed in (FSTAT, READ)
                yield f"{self.program.made} is not there" + f", {UNREAD}" * is_unread


def wait(process: subprocess.Popen[bytes]) -> str:
    process.wait(COMMAND_S)
    return ""


def use(process: subprocess.Popen[bytes], port: int, answers: bool) -> str:
    """Ask it for pages, and end it. What is wrong with its answers."""
    wrong = ""
    start_s = START_S if answers else NO_START_S
    deadline, answered = time.monotonic() + start_s, 0
    while answered < REQUESTS and process.poll() is None:
        if asks(port):
            answered += 1
        elif time.monotonic() > deadline:
            if answers:
                wrong = f"it has answered {answered} requests in {start_s} s, and has not ended"
            break
        else:
            time.sleep(0.05)
    if process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children:
            os.kill(int(children[0]), signal.SIGTERM)
        process.wait(END_S)
    elif process.returncode == 0:
        wrong = "it has ended by itself, and well"
    return wrong


def asks(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read() == b"whole"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def faults(text: str, is_server: bool) -> Iterator[str]:
    """Crashes in what was said, and tracebacks: of a command any, of a server those of which the
    last frame here or in gunicorn is pasture's, or any where the parent ends on it. Each with its
    own words."""
    for crash in re.findall(r"was sent (SIG\w+)|(Fatal Python error: .*)", text):
        if crash[0] not in ("SIGTERM", "SIGKILL"):
            yield "".join(crash) + f"\n{text[-3000:]}" * bool(crash[0])
    before, *traces = text.split("Traceback (most recent call last):\n")
    words = ""
    for trace in traces:
        lead = before.rstrip().rpartition("\n")[2]
        lines = trace.splitlines()
        end = next((n for n, one in enumerate(lines) if not one.startswith(" ")), len(lines))
        if WAKEUP in text and len({one for one in lines[:end] if one.startswith("  File")}) == 1:
            lead = WAKEUP  # those of two processes may be mixed
        is_chained = lead.startswith(("During handling of", "The above exception was"))
        words = "\n".join([words if is_chained else "", lead, *lines[: end + 1]])
        frames = [found for one in lines[:end] for found in OWN_FRAME.findall(one)]
        looked_at = frames if lead.endswith(ENDS_SERVER) or not is_server else frames[-1:]
        if any("gunicorn" not in one for one in looked_at):
            yield f"a traceback of pasture's{words}"
        before = trace or before
