"""The program of a process: which one starts the interpreter, and under which name it is known.

`pasture-python` starts it where there is an image, at first and when a server starts itself again.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pasture import off

VARIABLE = "PASTURE_IMAGE"
"""Names the image: a file, `auto`, or `0` for none. Without it the environment's own counts."""

STUB = "pasture-python"

_PYTHON = re.compile(r"python(3(\.\d+)?)?")


def is_python(name: str) -> bool:
    """Whether a program of this name is an interpreter: `python`, `python3`, `python3.14`."""
    return _PYTHON.fullmatch(name) is not None


def starter(python: str = sys.executable, environ: Mapping[str, str] = os.environ) -> str:
    """Path of `pasture-python` next to an interpreter; without an image the interpreter's own."""
    stub = os.path.join(os.path.dirname(python), STUB)  # noqa: PTH118, PTH120
    is_wanted = environ.get(VARIABLE) or os.path.exists(f"{stub}.img")  # noqa: PTH110
    return stub if is_wanted and not off.why(environ) and os.access(stub, os.X_OK) else python


def take_name(name: str) -> None:
    """Be the command of that name, from now on. Forked processes inherit it. Source: proc(5).

    `pgrep` and service managers look for a script's name. `python -m` would give the process the
    interpreter's, and usage texts a module's.
    """
    with contextlib.suppress(OSError):  # there may be no /proc
        Path("/proc/self/comm").write_text(name)
    vars(sys.modules["__main__"])["__package__"] = None  # click then names the program by its path
