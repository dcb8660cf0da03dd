"""Attempt 1 on a CPython of today: code objects alone made immortal, so that a call counts
no references in them.

From 3.12 on, and only here: pasture's own seal does all objects at once, in C, and keeps the
layouts that are written down below by hand.

Source: CPython 3.12 and 3.13 Include/object.h (_Py_IMMORTAL_REFCNT); 3.14
Objects/object.c (_Py_SetImmortalUntracked).
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType

_REFERENCE_COUNT_3_12 = 0xFFFFFFFF


def all_codes() -> Iterator[CodeType]:
    """Code objects of all functions, and those that they hold."""
    seen: set[int] = set()
    pending = [f.__code__ for f in gc.get_objects() if type(f) is FunctionType]
    while pending:
        code = pending.pop()
        if id(code) in seen:
            continue
        seen.add(id(code))
        yield code
        pending += [constant for constant in code.co_consts if type(constant) is CodeType]


def make_immortal() -> int:
    """Make them immortal; returns how many there are.

    Raises:
        NotImplementedError: this interpreter has no immortal objects.
    """
    if sys.version_info < (3, 12):
        raise NotImplementedError("immortal objects came with CPython 3.12")
    codes = list(all_codes())
    for code in codes:
        if sys.version_info >= (3, 14):
            ctypes.pythonapi._Py_SetImmortalUntracked(ctypes.py_object(code))
        else:
            ctypes.c_ssize_t.from_address(id(code)).value = _REFERENCE_COUNT_3_12
    return len(codes)
