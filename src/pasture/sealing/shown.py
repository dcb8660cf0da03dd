"""The report of a process's latest seal, where others find it: memory that it holds for them.

Owns the file, which cannot be changed, and the reading from outside. A child has its parent's until
it is sealed itself. The file is closed by its number only if that is still this file.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pasture.proc import memory_file
from pasture.sealing.report import SealReport
from pasture.trust.untrusted_text import to_json

NAME = "pasture-report"
_PROC = Path("/proc")
_SEALS = (
    memory_file.SEAL_WRITE | memory_file.SEAL_SHRINK | memory_file.SEAL_GROW | memory_file.SEAL_SEAL
)
_MAX_BYTES = 1 << 20

_latest: tuple[int, tuple[int, int]] | None = None


def show(report: SealReport) -> None:
    """Have this report found in place of the one before; without memory for it, none is."""
    global _latest
    hide()
    with suppress(OSError, MemoryError):
        file = memory_file.create(NAME)
        try:
            with open(file, "wb", closefd=False) as stream:
                stream.write(to_json(report.as_dict()).encode())
            fcntl.fcntl(file, memory_file.ADD_SEALS, _SEALS)
            _latest = file, _identity(file)
        finally:
            if _latest is None:
                os.close(file)


def hide() -> None:
    """Have none found: what is made of this process is another one."""
    global _latest
    before, _latest = _latest, None
    with suppress(OSError):
        if before is not None and _identity(before[0]) == before[1]:
            os.close(before[0])


def read(pid: int, proc: Path = _PROC) -> Any:
    """The report that a process shows, as plain values; None without one that can be read."""
    for file in memory_file.find(pid, NAME, _SEALS, proc):
        with suppress(OSError, ValueError, RecursionError):
            return json.loads(os.pread(file, _MAX_BYTES, 0))
    return None


def _identity(file: int) -> tuple[int, int]:
    status = os.fstat(file)
    return status.st_dev, status.st_ino
