"""Parents and children: an end with the parent, and the check that a pid is an own child's.

The kernel signals the process, even if it is stopped. Source: PR_SET_PDEATHSIG(2const).
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native


def end_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Have this process get a signal when its parent ends, or now if the parent has ended.

    A fork does not inherit it; a change of user removes it. Has no effect without the extension, or
    in a sandbox that refuses it.
    """
    with suppress(UnsupportedInterpreter, OSError):
        native().die_with_parent(number)
    if os.getppid() != parent:
        signal.raise_signal(number)


def is_own_child(pid: int) -> bool:
    """Whether a pid is an unreaped child of this process.

    The kernel reuses the pid only after this process has waited for the child. Source: waitid(2).
    """
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return False
    return True
