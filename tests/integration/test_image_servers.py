"""Servers out of an image in a file: started, sealed, reloaded and reforked like any other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from generations import refork, wait_for_roles
from images import STUB, Images
from running import TIMEOUT_S, Running, completed, environment, free_port, listens

pytestmark = pytest.mark.once

PROGRAMS = Path(__file__).parent.parent / "programs"
Serve = Callable[..., Any]
STARTED = "pasture-python: started from the image"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    folder = tmp_path_factory.mktemp("images")
    found = Images(folder)
    found.environ |= {"PYTHONPATH": str(PROGRAMS), "PYTHONUNBUFFERED": ""}
    found.built("--preload", "herd_app,gunicorn.app.wsgiapp,gunicorn.arbiter")
    return found


def options(images: Images, *more: str) -> dict[str, object]:
    environ = {
        **{name: "" for name in os.environ if name.startswith("LC_")},
        **images.environ,
        "PASTURE_IMAGE_VERBOSE": "1",
    }
    return {"options": ("--image", str(images.image), *more), "env": environ}


def starts_from_image(pid: int, images: Images) -> bool:
    return str(images.image) in Path(f"/proc/{pid}/maps").read_text()


def test_a_sealed_gunicorn_out_of_an_image_is_reloaded(images: Images, serve: Serve) -> None:
    server = serve(**options(images))
    assert server.log.count(STARTED) == 1 and ": sealed, " in server.log
    assert starts_from_image(server.process.pid, images)
    before = set(server.workers())
    server.send(signal.SIGHUP)
    server.wait_for(
        lambda: len(server.workers()) == 2 and not before & set(server.workers()), "new workers"
    )
    assert server.get("/who")["pid"] not in before
    assert server.stop() == 0
    assert "Traceback" not in server.log


def test_a_new_master_after_usr2_starts_out_of_the_image(
    images: Images, serve: Serve, tmp_path: Path
) -> None:
    server = serve("--pid", str(tmp_path / "pid"), workers=1, **options(images))
    server.send(signal.SIGUSR2)
    server.wait_until_it_logs(STARTED, times=2)
    upgraded = tmp_path / "pid.2"
    server.wait_for(upgraded.exists, "a new pidfile")
    master = psutil.Process(int(upgraded.read_text()))
    try:
        server.wait_for(master.children, "a worker of the new master")
        assert starts_from_image(master.pid, images)
        assert server.stop() == 0
        assert server.get("/who")["pid"] in server.workers(master.pid)
    finally:
        family = [master, *master.children()]
        master.terminate()
        _, left = psutil.wait_procs(family, timeout=TIMEOUT_S)
        for process in left:
            process.kill()
    assert left == []


def test_a_worker_of_a_server_out_of_an_image_becomes_the_next_parent(
    images: Images, serve: Serve
) -> None:
    given = options(images, "--refork", "5,1000")
    server = serve("--graceful-timeout", "10", app="refork_app:app", **given)
    assert STARTED in server.log
    refork(server, 1)
    wait_for_roles(server, ("mold", 1), *[("worker", 1)] * 2)
    assert server.stop() == 0
    assert "Traceback" not in server.log


def test_a_uwsgi_out_of_an_image_is_reloaded(images: Images, tmp_path: Path) -> None:
    pytest.importorskip("pyuwsgi")
    port = free_port()
    command = [str(STUB), "-c", "import pyuwsgi; pyuwsgi.run()", "--http-socket"]
    words = [f"127.0.0.1:{port}", "--master", "--die-on-term", "--module", "herd_app:app"]
    variables = {**images.variables, "PASTURE_IMAGE_VERBOSE": "1"}
    server = Running([*command, *words], tmp_path / "log", variables)

    def answers() -> int:
        url = f"http://127.0.0.1:{port}/who"
        return int(json.load(urllib.request.urlopen(url, timeout=TIMEOUT_S))["pid"])

    try:
        server.wait_for(lambda: listens(port), "an answer")
        before = answers()
        server.send_signal(signal.SIGHUP)
        server.wait_for(lambda: not psutil.pid_exists(before), "the old worker's end")
        server.wait_for(lambda: listens(port), "an answer of the new one")
        assert answers() != before and STARTED in server.log
        assert server.stop() == 0
    finally:
        print(server.log)
        server.destroy()


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("uwsgi", "--http-socket 127.0.0.1:{} --master --die-on-term --module herd_app:app"),
        ("uvicorn", "--workers 2 --port {} herd_asgi_app:app"),
    ],
)
def test_other_engines_start_out_of_an_image(
    images: Images, tmp_path: Path, engine: str, words: str
) -> None:
    pytest.importorskip("pyuwsgi" if engine == "uwsgi" else engine)
    port = free_port()
    variables = options(images)["env"]
    command = [sys.executable, "-m", "pasture", "run", "--image", str(images.image), engine]
    server = Running(
        [*command, *words.format(port).split()],
        tmp_path / "log",
        environment(variables),  # type: ignore[arg-type]
    )
    try:
        server.wait_for(lambda: listens(port), "an answer")
        urllib.request.urlopen(f"http://127.0.0.1:{port}/who", timeout=TIMEOUT_S).read()
        assert STARTED in server.log and "sealed, " in server.log
        assert server.stop() == 0
    finally:
        print(server.log)
        server.destroy()


def test_an_image_that_cannot_be_used_is_a_mistake_of_the_command_line(tmp_path: Path) -> None:
    def run(python: object, image: str) -> subprocess.CompletedProcess[str]:
        command = ["-m", "pasture", "run", "--image", image, "--", str(python), "-c", "print(1)"]
        return completed([sys.executable, *command])

    done = run("python", str(tmp_path / "absent.img"))
    assert (done.returncode, "is not a file" in done.stderr) == (2, True)
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    done = run(other, "auto")
    assert "there is no pasture-python next to" in done.stderr
    assert "pasture[image]" in done.stderr
