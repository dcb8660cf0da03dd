"""A program that a test has started: its log, its children, and its end for certain."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

PATIENCE_S = 30


class Running:
    """A process that writes to a log file, in whose folder it runs.

    Attributes:
        patience_s: how long each wait for something of it may take.
    """

    patience_s = PATIENCE_S

    def __init__(self, command: Sequence[str], log_path: Path, env: Mapping[str, str]) -> None:
        self.log_path = log_path
        with log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=log_path.parent, stdout=log, stderr=subprocess.STDOUT, env=env
            )

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def children(self, parent: int | None = None) -> set[int]:
        """Pids of its children, or of another process's, without zombies."""
        children = psutil.Process(parent or self.process.pid).children()
        return {child.pid for child in children if _is_alive(child)}

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + self.patience_s
        while not condition():
            assert self.process.poll() is None, f"the program has ended\n{self.log}"
            assert time.monotonic() < deadline, f"{what} did not happen\n{self.log}"
            time.sleep(0.05)

    def wait_for_end(self) -> int:
        return self.process.wait(self.patience_s)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait_for_end()

    def destroy(self) -> None:
        """Kill whatever is still there: it and its descendants, and no other."""
        with contextlib.suppress(psutil.NoSuchProcess):
            family = [psutil.Process(self.process.pid)]
            family += family[0].children(recursive=True)
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self.wait_for_end()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """This process's variables without pasture's own, and some more."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PASTURE_")}
    return kept | dict(more)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
