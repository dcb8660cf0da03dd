"""Whether children of this interpreter can end without finalization: tried in a process of its own.

The way out goes past a function of the interpreter that is found on the C stack at the very end, so
no look at a running server shows whether it is found.
"""

from __future__ import annotations

import subprocess
import sys

TIMEOUT_S = 20.0
_LEAVES = "leaves"
_PROGRAM = f"""\
from pasture.interpreter import native

def at_end(can_leave):
    print("{_LEAVES}" if can_leave else "finalizes", flush=True)
    return 0, 0.0

native().check_layout()
native().arm_exit(at_end)
"""


def try_exit(program: str = _PROGRAM) -> str | None:
    """None if they can, or if it could not be tried; else a sentence without a full stop."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.stdout.split()[-1:] == [_LEAVES]:
        return None
    return (
        "no exit without finalization: the function that finalizes was not found on the stack of "
        "this build of CPython, so children are finalized at their end, and copy several MB then"
    )
