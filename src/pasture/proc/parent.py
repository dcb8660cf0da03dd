"""Parents and children: a process that ends with its parent, and whether a pid is an own child's.

The kernel signals the former, even one that is stopped. Source: PR_SET_PDEATHSIG(2const).
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native


def end_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Have this process get a signal when its parent ends, and now if that has ended already.

    Not inherited by a fork; a change of user takes it back. Without the extension, and in a sandbox
    that refuses it, this process ends by itself, or not.
    """
    with suppress(UnsupportedInterpreter, OSError):
        native().die_with_parent(number)
    if os.getppid() != parent:
        signal.raise_signal(number)


def is_own_child(pid: int) -> bool:
    """Whether it is a child of this process that nothing has waited for yet.

    Its pid cannot come around before this process has waited for it. Source: waitid(2).
    """
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return False
    return True
