"""Whether a pid belongs to a child of this process: what the kernel says, without /proc.

For processes that signal others by pids that they have kept, or that others have named.
"""

from __future__ import annotations

import os


def is_own_child(pid: int) -> bool:
    """Whether it is a child of this process that nothing has waited for yet.

    Its pid cannot come around before this process has waited for it. Source: waitid(2).
    """
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return False
    return True
