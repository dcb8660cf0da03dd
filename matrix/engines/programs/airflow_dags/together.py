"""A DAG of Airflow whose tasks all run at the same time: each says that it is there, and waits.

TOGETHER_FOLDER gets a file for each task, named after its pid, with the pid of the executor's
worker; the tasks end when `go` is in it. TOGETHER_TASKS says how many there are.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from airflow.sdk import dag, task

TIMEOUT_S = 900
FOLDER = Path(os.environ["TOGETHER_FOLDER"])


@dag(schedule="@once", catchup=False, is_paused_upon_creation=False)
def together() -> None:
    @task
    def wait(number: int) -> int:
        (FOLDER / str(os.getpid())).write_text(str(os.getppid()))
        deadline = time.monotonic() + TIMEOUT_S
        while not (FOLDER / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.2)
        return number

    wait.expand(number=list(range(int(os.environ["TOGETHER_TASKS"]))))


together()
