"""The argument tuples that uWSGI keeps: one a core, filled anew for each request.

uWSGI calls an application with a tuple that it made once and changes with
`PyTuple_SetItem`, which works on a tuple with one reference only. An immortal one has more,
and every request would be answered with a 500. Owns keeping them out of the seal.

Source: uWSGI 2.0.31 plugins/python/pyloader.c, init_uwsgi_app; wsgi_subhandler.c.
"""

from __future__ import annotations

import ctypes
import gc
from types import BuiltinFunctionType
from typing import Any

START_RESPONSE = "uwsgi_spit"
"""Name of uWSGI's `start_response`, the last element of such a tuple."""


def keep_out_of_the_seal() -> int:
    """Take the tuples out of the collector's sight. In the master, before it is sealed.

    The seal makes immortal what the collector sees and what that refers to; only uWSGI's C
    code refers to these. It holds them for ever, so the collector has no use for them.

    Returns:
        How many there were.
    """
    untrack = ctypes.pythonapi.PyObject_GC_UnTrack
    untrack.argtypes, untrack.restype = [ctypes.py_object], None
    found = [candidate for candidate in gc.get_objects() if is_arguments(candidate)]
    for arguments in found:
        untrack(arguments)
    return len(found)


def is_arguments(candidate: Any) -> bool:
    """Whether this is a tuple of an environ, or None, and uWSGI's `start_response`."""
    return (
        type(candidate) is tuple
        and len(candidate) == 2
        and type(candidate[1]) is BuiltinFunctionType
        and candidate[1].__name__ == START_RESPONSE
    )
