"""Moments in callbacks of large modules."""

from __future__ import annotations

import ctypes
import sqlite3

from moments import MOMENTS, Act, once


def in_ctypes_callback(act: Act) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    values = (ctypes.c_int * 10)(*range(10, 0, -1))
    ctypes.CDLL(None).qsort(values, 10, ctypes.sizeof(ctypes.c_int), kind(once(act)))


def in_sqlite_function(act: Act) -> None:
    connection = sqlite3.connect(":memory:")
    connection.create_function("act", 0, once(act))
    connection.execute("select act()").fetchall()
    connection.close()


MOMENTS += [in_ctypes_callback, in_sqlite_function]
