"""The report of a process's latest seal, where others find it: memory that it holds for them.

A child has its parent's until it is sealed itself.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from pasture.proc.memory_file import Shown
from pasture.sealing.report import SealReport

NAME = "pasture-report"

_report = Shown(NAME)


def show(report: SealReport) -> None:
    """Have this report found in place of the one before; without memory for it, none is."""
    # Without an indent it is done in C, before CPython 3.13 too: no garbage is left to all workers.
    _report.show(json.dumps(report.as_dict()))


def hide() -> None:
    """Have none found: what is made of this process is another one."""
    _report.hide()


def read(pid: int, proc: Path = Path("/proc")) -> Any:
    """The report that a process shows, as plain values; None without one that can be read."""
    for content in _report.read(pid, proc):
        with suppress(ValueError, RecursionError):
            return json.loads(content)
    return None
