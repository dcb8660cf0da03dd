"""What else uses the device from forked processes: NCCL, a child of a user of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.gpu.machine import PROGRAMS, Machine


def measure(machine: Machine) -> Iterator[dict[str, Any]]:
    for name, *words in (
        ("touching.py", "stock"),
        ("touching.py", "sealed"),
        ("nccl.py",),
    ):
        yield machine.run(" ".join((name, *words)), sys.executable, PROGRAMS / name, *words)
