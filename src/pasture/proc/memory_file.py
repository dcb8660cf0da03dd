"""Files in the kernel's memory, which have no name anywhere, and their seals.

Owns what a Python that was built for an old C library does not offer: memfd_create(2) and the
numbers of its flags and seals, which Linux keeps.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

ADD_SEALS, GET_SEALS = 1033, 1034
SEAL_SEAL, SEAL_SHRINK, SEAL_GROW = 1, 2, 4

_CLOEXEC, _ALLOW_SEALING, _NOEXEC_SEAL = 1, 2, 8
_CALL_NUMBERS = {"x86_64": 319, "aarch64": 279}


def create(name: str, *, may_run: bool = True) -> int:
    """A new file without content, closed at an exec, that can be sealed.

    Args:
        may_run: False has the kernel refuse to run it as a program, from Linux 6.3 on.

    Raises:
        OSError: it cannot be had.
    """
    if not may_run:
        with suppress(OSError):
            return _create(name, _CLOEXEC | _ALLOW_SEALING | _NOEXEC_SEAL)
    return _create(name, _CLOEXEC | _ALLOW_SEALING)


def _create(name: str, flags: int) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, flags)
    number = _CALL_NUMBERS.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    file = int(library.syscall(ctypes.c_long(number), name.encode(), ctypes.c_uint(flags)))
    if file < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return file
