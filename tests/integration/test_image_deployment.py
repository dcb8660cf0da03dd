"""A release under load: a new image takes the place of the old one, and no request is lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from images import Images
from running import TIMEOUT_S, Running, environment, free_port

from pasture.proc import smaps
from pasture_tools.proc.images import mapping_of, programs_of

pytestmark = pytest.mark.once

VERSION = """\
import os
DATA = [str(number) for number in range(100_000)]
def application(environ, start_response):
    start_response("200 OK", [])
    return [b"%d %d" % ({}, os.getpid())]
"""
STARTED = "pasture-python: started from the image"
MODULES = "released,gunicorn.app.wsgiapp,gunicorn.arbiter,gunicorn.workers.sync"


class Load:
    """Requests from two threads without a pause, a connection each; what was answered."""

    def __init__(self, port: int) -> None:
        self.versions: list[int] = []
        self.failures: list[str] = []
        self._url = f"http://127.0.0.1:{port}/"
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(2)]

    def _ask(self) -> None:
        while not self._over.is_set():
            try:
                with urllib.request.urlopen(self._url, timeout=TIMEOUT_S) as answer:
                    self.versions.append(int(answer.read().split()[0]))
            except (OSError, ValueError) as error:
                self.failures.append(repr(error))

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def has(self, version: int) -> bool:
        return self.versions[-20:] == [version] * 20


@pytest.fixture
def images(tmp_path: Path) -> Images:
    found = Images(tmp_path)
    release(found, 1)
    return found


def release(images: Images, version: int) -> None:
    images.module("released", VERSION.format(version) + "#" * version)
    images.built("--preload", MODULES)


SUPERVISOR = """\
import signal, socket, subprocess, sys
address = ("127.0.0.1", int(sys.argv[1]))
listener = socket.create_server(address) if "fd://0" in sys.argv else None
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
while not subprocess.run(sys.argv[2:], stdin=listener).returncode and listener:
    pass
signal.pause()
"""
"""Keeps the socket while the server is restarted, as a socket of systemd or an fcgi-program of
supervisord does."""


@contextmanager
def supervised(images: Images, folder: Path, bind: str) -> Iterator[tuple[Running, int]]:
    """gunicorn below a supervisor that has a listening socket for it; with the port."""
    environ = environment({**images.environ, "PASTURE_IMAGE_VERBOSE": "1"})
    port = free_port()
    words = (
        "gunicorn",
        "-w",
        "2",
        "-b",
        bind.format(port=port),
        "-p",
        str(folder / "pid"),
        "released",
    )
    run = (sys.executable, "-m", "pasture", "run", "--image", str(images.image), *words)
    command = [sys.executable, "-c", SUPERVISOR, str(port), *run]
    server = Running(command, folder / "log", environ)
    try:
        server.wait_for(lambda: ": sealed, " in server.log, "the seal")
        assert STARTED in server.log
        yield server, port
    finally:
        print(server.log)
        server.destroy()


def master(folder: Path) -> int:
    return int((folder / "pid").read_text())


def upgrade(server: Running, folder: Path) -> None:
    """A second master beside the first, then the first ends: within one start of a program."""
    old = master(folder)
    os.kill(old, signal.SIGUSR2)
    server.wait_for(lambda: server.log.count(": sealed, ") == 2, "the second seal")
    server.wait_for(lambda: len(children(int((folder / "pid.2").read_text()))) == 2, "workers")
    os.kill(old, signal.SIGTERM)


def restart(server: Running, folder: Path) -> None:
    """The server ends, and its supervisor starts it again: connections wait in the socket."""
    os.kill(master(folder), signal.SIGTERM)
    server.wait_for(lambda: server.log.count(": sealed, ") == 2, "the second seal")


@pytest.mark.parametrize(
    ("bind", "switch"),
    [("127.0.0.1:{port}", upgrade), ("fd://0", restart)],
    ids=["USR2", "restart"],
)
def test_a_release_under_load_loses_no_request_and_frees_the_old_image(
    images: Images, tmp_path: Path, bind: str, switch: Callable[[Running, Path], None]
) -> None:
    with supervised(images, tmp_path, bind) as (server, port), Load(port) as load:
        server.wait_for(lambda: load.has(1), "answers")
        old = mapping_of(images.image)
        server.wait_for(lambda: len(programs_of(old, server.members())) == 3, "all programs")
        before = pss(server)
        release(images, 2)
        server.wait_for(lambda: load.has(1), "answers of the old programs")
        switch(server, tmp_path)
        server.wait_for(lambda: load.has(2), "answers of the new release")
        server.wait_for(lambda: not programs_of(old, server.members()), "end of the old programs")
        new = mapping_of(images.image)
        server.wait_for(lambda: len(programs_of(new, server.members())) == 3, "all programs")
        server.wait_for(lambda: 0 < pss(server) < 1.2 * before, "the memory of before")
    assert load.failures == []
    assert set(load.versions) == {1, 2}
    assert server.log.count(STARTED) == 2


def pss(server: Running) -> int:
    """Bytes; 0 if a process ends meanwhile."""
    return smaps.total_pss_bytes(server.members()) or 0


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children()
