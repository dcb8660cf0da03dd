"""gunicorn with a model on the device: plain, preloaded, sealed, out of an image; and a warm-up
that touches the device.
"""

from __future__ import annotations

import collections
import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu.images import all_variables, build
from benchmarks.gpu.machine import PROGRAMS, TEXT_CHARACTERS, Machine, end_group, environment, tool

WORKERS = 4
APP = "model_app:app"


def measure(machine: Machine) -> Iterator[dict[str, Any]]:
    os.environ["PYTHONPATH"] = str(PROGRAMS)
    gunicorn = (tool("gunicorn"), "-w", str(WORKERS))
    pasture_run = (tool("pasture"), "run")
    yield serve(machine, "plain", *gunicorn)
    yield serve(machine, "preload", *gunicorn, "--preload")
    yield serve(machine, "sealed", *pasture_run, "gunicorn", *gunicorn[1:])
    touching = ("--warm", "/predict")
    yield serve(
        machine, "warm-up on the device", *pasture_run, *touching, "gunicorn", *gunicorn[1:]
    )
    image = machine.scratch / "model.img"
    yield build(machine, "build model_app", image, "--preload", "model_app", *all_variables())
    if image.exists():
        words = (*pasture_run, "--image", str(image), "gunicorn", *gunicorn[1:])
        yield serve(machine, "image", *words)


def serve(machine: Machine, name: str, *command: str) -> dict[str, Any]:
    """Starts a server, asks it until each worker has answered, and reads its memory."""
    if not machine.has_time(8.0):
        return {"name": name, "error": "no time left"}
    port = free_port()
    log = machine.out / f"server-{name.replace(' ', '-')}.log"
    began = time.perf_counter()
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, "-b", f"127.0.0.1:{port}", APP], stdout=file, stderr=file, text=True,
            start_new_session=True, cwd=machine.scratch, env=environment(PASTURE_IMAGE_VERBOSE="1"),
        )  # fmt: skip
    row: dict[str, Any] = {"name": name}
    try:
        ends = min(machine.ends_s, time.monotonic() + 20.0)
        answers = list(ask(port, ends))
        row["first_answer_s"] = min(one.at for one in answers) - began
        row["workers"] = len({one.worker for one in answers})
        row["answers"] = sorted({one.text for one in answers})
        row["pss_mb"] = tree_pss_mb(process.pid)
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"
    finally:
        stop(process)
    row["log"] = log.read_text()[-TEXT_CHARACTERS:]
    return row


class Answer(NamedTuple):
    at: float
    worker: str
    text: str


def ask(port: int, ends: float) -> Iterator[Answer]:
    """Answers of the device, until each worker has given three, or the time is over."""
    counts: collections.Counter[str] = collections.Counter()
    with ThreadPoolExecutor(2 * WORKERS) as clients:
        while time.monotonic() < ends:
            for answer in clients.map(ask_once, [port] * 2 * WORKERS):
                if answer is not None:
                    counts[answer.worker] += 1
                    yield answer
            if len(counts) == WORKERS and min(counts.values()) >= 3:
                return


def ask_once(port: int) -> Answer | None:
    """One answer; None if the server does not answer yet."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/predict")
        response = connection.getresponse()
        body = f"{response.status} {response.read().decode()[:60]}"
        connection.close()
    except (OSError, http.client.HTTPException):
        time.sleep(0.02)
        return None
    return Answer(time.perf_counter(), response.headers.get("X-Pid", ""), body)


def tree_pss_mb(pid: int) -> float:
    """PSS of a process and of all that descend from it."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    waiting, total = [pid], 0
    while waiting:
        one = waiting.pop()
        waiting += parents.get(one, [])
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return round(total / 1024, 1)


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(8)
    except subprocess.TimeoutExpired:
        pass
    end_group(process)
    process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
