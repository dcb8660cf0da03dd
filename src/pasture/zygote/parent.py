"""A process that ends with its parent: nobody else would end one that stands still."""

from __future__ import annotations

import os
import signal

from pasture.interpreter import native


def end_with_parent(parent: int) -> None:
    """End this process when its parent ends, and now if that has ended already.

    Args:
        parent: its pid.
    """
    native().die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
