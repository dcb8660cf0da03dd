"""Runs a program, or `-m MODULE`, as a user without any privilege: `unprivileged.py PROGRAM ...`.

To be started as root. The interpreter may lie where that user cannot read, so all modules
that the programs need are imported first.
"""

import ctypes
import os
import runpy
import sys

PR_SET_DUMPABLE = 4
OTHER_USER = 65534


def drop_privileges():
    os.setgroups([])
    os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
    # A process that changes its user is closed to that user's other processes; one that
    # was started by him is not.
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def import_what_is_needed():
    import gc  # noqa: F401
    import importlib
    import json  # noqa: F401
    import opcode  # noqa: F401
    import pkgutil  # noqa: F401
    import weakref  # noqa: F401

    import numpy  # noqa: F401
    import rich.console  # noqa: F401

    for name in (
        "pasture_tools.cli.main",
        "pasture_tools.cli.explain",
        "pasture_tools.cli.metrics",
        "pasture.sealing.seal",
        "pasture.sealing.snapshot",
        "pasture_tools.explain.explain",
        "pasture_tools.explain.document",
        "pasture_tools.explain.html",
        "pasture_tools.explain.table",
    ):
        importlib.import_module(name)


if __name__ == "__main__":
    import_what_is_needed()
    drop_privileges()
    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
