"""The name under which an engine's process is known: that of its own command.

`pgrep` and service managers look for a script's name. `python -m` would give the process the
interpreter's, and usage texts a module's.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def take(name: str) -> None:
    """Be the command of that name, from now on. Forked processes inherit it. Source: proc(5)."""
    with contextlib.suppress(OSError):  # there may be no /proc
        Path("/proc/self/comm").write_text(name)
    vars(sys.modules["__main__"])["__package__"] = None  # click then names the program by its path
