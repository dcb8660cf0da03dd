"""Processes that `multiprocessing` forks, sealed where only the environment asks for it.

Importing it is the switch: `PASTURE=seal python train.py` comes here. Pools, executors and
`Process` alike start through the one method that is wrapped. The program works in between, so it
is sealed once.
"""

from __future__ import annotations

import os
from multiprocessing import popen_fork
from typing import Any

from pasture.serving.sealer import Sealer, is_off
from pasture.serving.settings import settings_or_end


def install() -> None:
    """Seal this process before `multiprocessing` first forks from it."""
    sealer = Sealer(settings_or_end(), works=True)
    launch = popen_fork.Popen._launch  # type: ignore[attr-defined]
    owner = 0

    def launch_sealed(popen: Any, process: Any) -> None:
        nonlocal owner
        if owner in (0, os.getpid()):
            owner = os.getpid()
            sealer.before_fork_or_end()
        launch(popen, process)

    popen_fork.Popen._launch = launch_sealed  # type: ignore[attr-defined]


if not is_off():
    install()
