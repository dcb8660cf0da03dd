"""The environment that an image is made in, as a file in memory.

A builder takes out of it what modules read (`variables`). The layout
is the kernel's: `NAME=VALUE`, each ended by a zero byte. src/native/image/variables.c maps it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_COERCED = "LC_CTYPE"
"""The interpreter sets it in the C locale (PEP 538)."""


def own() -> dict[str, str]:
    """What the kernel gave this process: start files may have changed it since."""
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - less is loaded into the image
        return _parsed(file.read())


def coerced() -> dict[str, str]:
    """What the interpreter has set of it at its start."""
    is_given = _COERCED not in os.environ or _COERCED in own()
    return {} if is_given else {_COERCED: os.environ[_COERCED]}


def write(environ: Mapping[str, str], file: int) -> None:
    """Fill an empty file. What no environment can have is left out."""
    data = b"".join(os.fsencode(f"{name}={value}\0") for name, value in environ.items()
                    if name and "=" not in name and "\0" not in name + value)  # fmt: skip
    with os.fdopen(file, "wb", closefd=False) as stream:
        stream.write(data or b"\0")


def read(file: int) -> dict[str, str]:
    """The environment. All of it is in the memory of this process then."""
    return _parsed(os.pread(file, os.fstat(file).st_size, 0))


def _parsed(data: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(one).partition("=") for one in reversed(data.split(b"\0")) if b"=" in one)
    return {name: value for name, _, value in pairs}  # of two with one name the first
