"""The program of a process: the one that starts the interpreter, and its visible name.

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
"""Variable for the image: a file, a folder, or `0` for none. By default `pasture-python.img`."""

STUB = "pasture-python"

_PYTHON = re.compile(r"python(3(\.\d+)?)?")


def is_python(name: str) -> bool:
    """Whether a program of this name is an interpreter: `python`, `python3`, `python3.14`."""
    return _PYTHON.fullmatch(name) is not None


def starter(python: str = sys.executable, environ: Mapping[str, str] = os.environ) -> str:
    """Path of `pasture-python` next to an interpreter; without an image the interpreter."""
    stub = os.path.join(os.path.dirname(python), STUB)  # noqa: PTH118, PTH120
    is_wanted = environ.get(VARIABLE) or os.path.exists(f"{stub}.img")  # noqa: PTH110
    return stub if is_wanted and not off.why(environ) and os.access(stub, os.X_OK) else python


def take_name(name: str) -> None:
    """Give this process the name of a command. Forked processes inherit it. Source: proc(5).

    `pgrep` and service managers look for a script's name. `python -m` would show the interpreter's
    name, and a module's name in usage texts.
    """
    with contextlib.suppress(OSError):  # there may be no /proc
        Path("/proc/self/comm").write_text(name)
    vars(sys.modules["__main__"])["__package__"] = None  # click then names the program by its path
