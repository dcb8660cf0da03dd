"""The job of all engines under faults: `fault_app`'s, and a line in the file `done` at its end.

So it is known of each number whether it was done, and how often.
"""

from __future__ import annotations

import os
from typing import Any

from fault_app import STATE, serve

DONE = os.open(STATE / "done", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def work(number: int) -> dict[str, Any]:
    answer: dict[str, Any] = serve(number)
    os.write(DONE, f"{number} {os.getpid()}\n".encode())
    return answer
