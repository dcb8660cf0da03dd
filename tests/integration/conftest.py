"""Real servers on loopback ports; each test ends those that it started, by pid."""

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from running import TIMEOUT_S, Running, environment, free_port, listens, waits_in_select

PROGRAMS = Path(__file__).parent.parent / "programs"


class Server(Running):
    """A gunicorn that was started by a test."""

    def __init__(self, command: list[str], directory: Path, port: int, env: dict[str, str]) -> None:
        super().__init__(command, directory / f"server-{port}.log", env)
        self.port = port
        self.control_socket = directory / "control"

    def get(self, path: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def workers(self, master: int | None = None) -> list[int]:
        """Pids of the master's children, without zombies."""
        return sorted(self.children(master))

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def wait_until_it_logs(self, text: str, times: int = 1) -> None:
        self.wait_for(lambda: self.log.count(text) >= times, f"logging {text!r}")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start `pasture run gunicorn` on the herd application; logs are shown on failure.

    Args of the function: arguments of gunicorn; `options` go to `pasture run`; `conf` is
    the text of a gunicorn.conf.py; `plain` starts gunicorn's own program instead; `env`
    adds variables; `workers` and `app` are what they say; `before` is a program that
    starts this one.
    """
    with _servers(tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def herd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of two workers as `serve` starts it, for tests that only look at it.

    None of them may end one of its processes, or rely on how many requests it has served.
    """
    with _servers(tmp_path_factory.mktemp("herd")) as start:
        yield start()


@pytest.fixture
def small_herd(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application whose memory does not matter: a server starts in four fifths of the time."""
    monkeypatch.setenv("HERD_RECORDS", "100")


@contextmanager
def _servers(folder: Path) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(
        *args: str,
        options: tuple[str, ...] = (),
        conf: str = "",
        plain: bool = False,
        env: dict[str, str] | None = None,
        workers: int = 2,
        app: str = "herd_app:app",
        ready: bool = True,
        before: Sequence[str] = (),
    ) -> Server:
        (folder / "gunicorn.conf.py").write_text(conf)
        port = free_port()
        begin = ["-m", "gunicorn"] if plain else ["-m", "pasture", "run", *options, "gunicorn"]
        command = [
            *before,
            sys.executable,
            *begin,
            "--bind",
            f"127.0.0.1:{port}",
            "-w",
            str(workers),
        ]
        server = Server(
            [*command, *_control_socket(folder), *args, app],
            folder,
            port,
            environment({"PYTHONPATH": str(PROGRAMS), "HOME": str(folder), **(env or {})}),
        )
        servers.append(server)
        if ready:
            server.wait_until_it_logs("Booting worker", times=workers)
            server.wait_for(lambda: listens(port), "an answer")
            _wait_until_signals_are_handled(server)
        return server

    try:
        yield start
    finally:
        for server in servers:
            print(f"--- log of the server on port {server.port}\n{server.log}")
            server.destroy()


def _wait_until_signals_are_handled(server: Server) -> None:
    """Until each worker waits for connections: before it has its handlers it loses a signal.

    That is gunicorn's own race. A child that never waits, a process of an application's, is given
    20 seconds.
    """
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not all(map(waits_in_select, server.children())):
        time.sleep(0.005)


def _control_socket(directory: Path) -> tuple[str, ...]:
    """Where the control socket goes, for those versions of gunicorn that have one."""
    from gunicorn.config import KNOWN_SETTINGS

    if any(setting.name == "control_socket" for setting in KNOWN_SETTINGS):
        return "--control-socket", str(directory / "control")
    return ()
