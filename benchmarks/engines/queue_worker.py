"""Workers of queues under measurement: how they are started, and how jobs are put to them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pasture.trial.session import Group, environment

PROGRAMS = Path(__file__).with_name("programs")
PATIENCE_S = 300


def start(command: Sequence[str], folder: Path, **variables: str) -> Group:
    """A worker with the programs on its path, and so many variables more."""
    added = {"PYTHONPATH": str(PROGRAMS), **variables}
    return Group(command, log=folder / "worker.log", env=environment(added), cwd=folder)


def put(python: Path, client: str, *arguments: str) -> list[dict[str, Any]]:
    """Have a client put jobs; what each of them returned.

    Raises:
        subprocess.SubprocessError: a result is missing.
    """
    done = subprocess.run(
        [python, PROGRAMS / f"{client}.py", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PATIENCE_S,
        env=environment({"PYTHONPATH": str(PROGRAMS)}),
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
