"""A program that runs another one, ends it with all its descendants, and cleans up.

It ends them as soon as its standard input ends: its starter has closed it, or was killed. It adopts
the orphans below it, so no descendant escapes by a new session. A signal does not end the guard; if
it is killed, the kernel kills the program.

    reaper.py REPORT FOLDER [COMMAND ...]

REPORT is the number of a descriptor that gets a line `pid N` or `error TEXT` at once, and `exit
N` when the program has ended (negative: the signal). FOLDER, unless it is empty, is removed in
the end. It starts for each program, so it imports little, and nothing of pasture: it lists its
children itself.

Source: PR_SET_CHILD_SUBREAPER(2const), PR_SET_PDEATHSIG(2const).
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_POLL_S = 0.01
_TIMEOUT_S = 60.0
_REMOVING_S = 10.0

_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Program:
    """The program that is guarded, and its report to a descriptor."""

    def __init__(self, report: int, command: list[str]) -> None:
        self._report = report
        self._pid = 0
        if not command:
            return
        try:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=lambda: _prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
            )
        except (OSError, ValueError) as error:
            self._report_line(f"error {error}")
            return
        started.returncode = 0  # reaped below, with all children
        self._pid = started.pid
        self._report_line(f"pid {self._pid}")

    def reap(self) -> bool:
        """Reap ended children; returns whether any child is left."""
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._pid:
                    self._report_line(f"exit {os.waitstatus_to_exitcode(found[1])}")
        except ChildProcessError:
            return False
        return True

    def _report_line(self, line: str) -> None:
        with suppress(BrokenPipeError):
            os.write(self._report, line.replace("\n", " ").encode(errors="replace") + b"\n")


def wait_for_end_of_input(program: Program) -> None:
    """Reap until the standard input ends."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    program.reap()
    while True:
        ready, _, _ = select.select((0, reading), (), ())
        if reading in ready:
            os.read(reading, 4096)
            program.reap()
        if 0 in ready and not os.read(0, 4096):
            return


def end_all(program: Program) -> None:
    """Kill the children until the last has ended: orphans of those that end become children."""
    end = time.monotonic() + _TIMEOUT_S
    while program.reap() and time.monotonic() < end:
        for pid in children():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def children() -> list[int]:
    """Pids of the children of this process, dead ones included."""
    found, own = [], str(os.getpid()).encode()
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            if file.read().rpartition(b")")[2].split()[1] == own:
                found.append(int(name))
    return found


def remove(folder: str) -> None:
    """Remove a folder, in which other processes may still write for a moment."""
    import shutil  # slow to import, and few programs have a folder

    end = time.monotonic() + _REMOVING_S
    while os.path.lexists(folder) and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_POLL_S)


def main(report: str, folder: str, *command: str) -> None:
    """Run as the module's docstring says."""
    _prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which the program would inherit
    os.set_inheritable(int(report), False)
    program = Program(int(report), list(command))
    wait_for_end_of_input(program)
    end_all(program)
    if folder:
        remove(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
