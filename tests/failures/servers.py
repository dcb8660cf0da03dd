"""Servers under pasture while one of their system calls fails: gunicorn's parent, workers, molds.

A server starts under calls.c, which gunicorn_failures.py arms; it is asked for pages, and ended. A
first run in which nothing fails shows which calls there are, and of each kind some fail. Wrong is
what is pasture's: a traceback that ends in gunicorn is what gunicorn does without pasture, too.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from pasture.launch.ports import free_port

HERE = Path(__file__).parent
GUNICORN = ("gunicorn", "-c", str(HERE / "gunicorn_failures.py"), "-w", "2", "-t", "10")
SERVED: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "gunicorn": (("pasture", "run", *GUNICORN), {}),
    "gunicorn_refork": (("pasture", "run", "--refork", "10", *GUNICORN), {}),
    "gunicorn_auto": (GUNICORN, {"PASTURE": "seal"}),
}
"""Words behind `python -m`, and variables."""

APPLICATION = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "5")])
    return [b"whole"]
"""
OF_A_KIND = 12
"""Points of one system call: the first ones, and others up to the last."""
NEVER = 10**9
REQUESTS = 40
START_S, END_S = 30, 40
"""A worker of gunicorn's that TERM meets before it has its handlers runs on until gunicorn's
graceful timeout of 30 seconds."""
OWN_FRAME = re.compile(r'File "[^"]*?/(src/pasture|site-packages/pasture|site-packages/gunicorn)')


def points(calls: list[int]) -> list[int]:
    """Which of the calls fail: of each kind some."""
    by_kind: dict[int, list[int]] = defaultdict(list)
    for n, number in enumerate(calls, 1):
        by_kind[number].append(n)
    chosen: set[int] = set()
    for ns in by_kind.values():
        few = OF_A_KIND // 2
        rest = ns[few:]
        chosen.update(ns[:few], rest[:: max(1, len(rest) // few)])
    return sorted(chosen)


def run_server(
    python: Path, folder: Path, entry: str, mode: int, first: int
) -> Generator[dict[str, Any]]:
    work = folder / f"server-{entry}-{mode}"
    chosen = points(attempt(python, folder, work, entry, mode, NEVER)["seen"])
    for n in chosen:
        if n < first:
            continue
        line = attempt(python, folder, work, entry, mode, n)
        line.pop("seen", None)
        if line["failed"]:
            yield line
    yield {"n": max([first, *chosen]) + 1, "failed": 0, "raised": ""}


def attempt(
    python: Path, folder: Path, work: Path, entry: str, mode: int, n: int
) -> dict[str, Any]:
    words, variables = SERVED[entry]
    work.mkdir(exist_ok=True)
    (work / "app.py").write_text(APPLICATION)
    port, log, said = free_port(), work / "log", work / "said"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ |= variables | {
        "PYTHONPATH": os.pathsep.join([str(folder), str(HERE)]),
        "FAILURE_OF": f"{n} {mode}",
    }
    command = [str(folder / "calls"), str(log), "env", f"LD_PRELOAD={folder / 'failing.so'}"]
    command += [str(python), "-m", *words, "-b", f"127.0.0.1:{port}", "app:application"]
    log.unlink(missing_ok=True)
    with said.open("w") as file:
        process = subprocess.Popen(
            command, cwd=work, env=environ, stdout=file, stderr=file, start_new_session=True
        )
    line: dict[str, Any] = {"n": n, "failed": -1, "raised": ""}
    wrong = ""
    try:
        wrong = use(process, port)
        line |= json.loads(log.read_text())
    except subprocess.TimeoutExpired:
        wrong = f"not at its end {END_S} s after TERM"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    text = said.read_text(errors="replace")
    line["raised"] = f"status {process.returncode}" if process.returncode else ""
    wrong = wrong or next(faults(text), "")
    if not wrong and process.returncode < 0:
        wrong = signal.Signals(-process.returncode).name
    if not wrong and process.returncode and "rror" not in text:
        wrong = f"status {process.returncode} without a word"
    if not wrong and line.get("left"):
        wrong = f"{line['left']} processes are left"
    if wrong:
        line["wrong"] = f"{wrong}\n{text[-3000:]}"
    return line


def use(process: subprocess.Popen[bytes], port: int) -> str:
    """Ask it for pages, and end it. What is wrong with its answers."""
    wrong = ""
    deadline, answered = time.monotonic() + START_S, 0
    while answered < REQUESTS and process.poll() is None:
        if asks(port):
            answered += 1
        elif time.monotonic() > deadline:
            wrong = f"it has answered {answered} requests in {START_S} s, and has not ended"
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


def faults(text: str) -> Iterator[str]:
    """Crashes in a log, and tracebacks of which the last frame here or in gunicorn is pasture's, or
    any where the parent ends on it."""
    for crash in re.findall(r"was sent (SIG\w+)|(Fatal Python error: .*)", text):
        if crash[0] not in ("SIGTERM", "SIGKILL"):
            yield "".join(crash)
    before, *traces = text.split("Traceback (most recent call last):\n")
    for trace in traces:
        ends_the_server = before.endswith("Unhandled exception in main loop\n")
        before, frames = trace, []
        for one in trace.splitlines():
            if not one.startswith(" "):
                break
            frames += OWN_FRAME.findall(one)
        if any("pasture" in one for one in (frames if ends_the_server else frames[-1:])):
            yield "a traceback of pasture's"
