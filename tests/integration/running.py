"""A program that a test has started: its log, its children, and its end for certain."""

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from pasture.launch.ports import listens
from pasture.launch.session import Group, environment

__all__ = ["TIMEOUT_S", "Running", "environment", "listens"]

TIMEOUT_S = 30


class Running(Group):
    """A program that writes to a log file, in whose folder it runs.

    Attributes:
        timeout_s: how long each wait for something of it may take.
        process: the program itself.
    """

    timeout_s = TIMEOUT_S

    def __init__(self, command: Sequence[str], log_path: Path, env: Mapping[str, str]) -> None:
        super().__init__(command, log=log_path, env=env, cwd=log_path.parent)
        self.process = self

    def children(self, parent: int | None = None) -> set[int]:
        """Pids of its children, or of another process's, without zombies."""
        children = psutil.Process(parent or self.pid).children()
        return {child.pid for child in children if _is_alive(child)}

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        super().wait_for(condition, f"{what} did not happen", timeout_s=self.timeout_s)

    def wait_for_end(self) -> int:
        return self.wait(self.timeout_s)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.send_signal(number)
        return self.wait_for_end()

    def destroy(self) -> None:
        """Kill whatever is still there: it and all that came of it."""
        self.end(polite_s=0)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
