"""A server that `pasture doctor` boots to look at, watches, and ends with all its processes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pasture.errors import ProcessEnded, ServerFailed, UsageError, guess
from pasture.proc import tree
from pasture.proc.smaps import require_smaps_rollup
from pasture.servers.engines import ENGINES
from pasture.trust.private_files import temporary_folder
from pasture_tools.doctor.evidence import Evidence, gather
from pasture_tools.doctor.notes import parse_notes
from pasture_tools.launch.session import Group

WATCH = Path(__file__).with_name("watch")
"""A folder in front of the server's path: its start file notes what the server does at the fork."""

_SETTLE_S = 2.0
_GRACE_S = 15.0


def boot(command: Sequence[str], wait_s: float) -> Evidence:
    """Run a server until it has workers, look at it, and stop it.

    Raises:
        UsageError: there is no such command.
        ServerFailed: it forks no worker in time.
    """
    require_smaps_rollup()
    with temporary_folder("pasture-doctor-") as folder:
        noted = folder / "noted"
        noted.touch()
        path = os.pathsep.join(filter(None, (str(WATCH), os.environ.get("PYTHONPATH"))))
        environ = {**os.environ, "PYTHONPATH": path, "PASTURE_DOCTOR_FILE": str(noted)}
        with _start(command, environ, folder / "log") as server:
            _wait_for_workers(server, wait_s)
            _wait_until_quiet(server, noted, wait_s)
            try:
                notes = parse_notes(noted.read_text("utf-8", "replace"))
                evidence = gather(server.pid, notes)
            except ProcessEnded:
                _require_running(server)
                raise
            server.terminate()
            server.exit_code(_GRACE_S)
    return evidence


def _start(command: Sequence[str], environ: Mapping[str, str], log: Path) -> Group:
    try:
        return Group(command, log=log, env=environ)
    except ServerFailed as error:
        here = Path(sys.executable).parent / command[0]
        if os.sep not in command[0] and here.is_file():
            raise UsageError(error.message, hint=f"it is not on the PATH: {here}") from None
        programs = [name for name, row in ENGINES.items() if row.is_program]
        meant = "" if command[0] in programs else guess(command[0], programs)
        raise UsageError(error.message, hint=f"{meant}give a pid, or a command after --") from None


def _wait_for_workers(server: Group, wait_s: float) -> None:
    end = time.monotonic() + wait_s
    while not (tree.forked_workers(server.pid) or tree.spawned_workers(server.pid)):
        _require_running(server, 0.1, "before it forked a worker")
        if time.monotonic() > end:
            raise ServerFailed(
                f"the command forked no worker in {wait_s:g} s",
                hint="give the command of a pre-fork server, without a shell around it; "
                "or raise --wait",
            )


def _require_running(
    server: Group, wait_s: float = _SETTLE_S, when: str = "right after it forked workers"
) -> None:
    """Raise ServerFailed, with the command's output, if it ends within that time."""
    code = server.exit_code(wait_s)
    if code is not None:
        raise server.failure(f"the command ended with status {code} {when}")


def _wait_until_quiet(server: Group, noted: Path, wait_s: float) -> None:
    """Wait until a command stops importing, for `wait_s` at most; raises if it ends."""
    end = time.monotonic() + wait_s
    before = -1
    while (size := noted.stat().st_size) != before and time.monotonic() < end:
        before = size
        _require_running(server)
