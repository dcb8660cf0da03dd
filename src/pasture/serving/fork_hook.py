"""Forks of workers, whatever the program: `pasture run -- python app.py`.

Owns which forks count. Only forks of Python code are seen (`os.register_at_fork`), not those of
`subprocess` or C code. A fork before an exec or for a daemon does not count: the child keeps
nothing or is the program itself. docs/multiprocessing.md lists the rules for users.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, ModuleType

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native

_EXECUTING = frozenset(name for name in dir(os) if name.startswith("exec"))
_DETACHING = frozenset(("setsid",))
_LIBRARY_FILES = ("subprocess.py", "pty.py")


def before_each(step: Callable[[FrameType | None], None]) -> None:
    """Call a function before each fork that runs Python's hooks, from now on.

    CPython would call only the after-fork hooks of modules that the function loads: a lock would be
    released that was not taken. So their before-fork hooks are called here.

    Args:
        step: called in the parent, with the Python frame that forks, or None. Must not raise.
    """

    def hook() -> None:
        known = extension.before_forks(hook) if extension is not None else 0
        # C code calls this function: the caller's frame is the one that forks.
        caller = sys._getframe().f_back
        is_ours = caller is not None and caller.f_globals.get("__name__") == "pasture_auto"
        step(caller.f_back if caller is not None and is_ours else caller)
        if extension is not None and known:
            extension.run_before_fork(hook, known)

    try:
        extension = native()
    except UnsupportedInterpreter:
        extension = None
    os.register_at_fork(before=hook)


def watch(before_fork: Callable[[], None], after: str = "") -> None:
    """Call a function before each fork for a worker, from now on.

    Args:
        before_fork: called in the parent; only the user's own hooks come between it and the fork.
            Must not raise.
        after: `MODULE` or `MODULE:NAME` that must be there first; "" for nothing.
    """
    owner = 0

    def step(caller: FrameType | None) -> None:
        nonlocal owner
        # Forks made by workers are ignored. A daemon has changed its pid before it has workers.
        if owner not in (0, os.getpid()) or not is_there(after, sys.modules):
            return
        if not leads_elsewhere(caller):
            owner = os.getpid()
            before_fork()

    before_each(step)


def is_there(target: str, modules: Mapping[str, ModuleType]) -> bool:
    """Whether a `MODULE` is completely imported, and `MODULE:NAME` is not None; true for ""."""
    if not target:
        return True
    name, _, attribute = target.partition(":")
    module = modules.get(name)
    if module is None:
        return False
    if getattr(getattr(module, "__spec__", None), "_initializing", False):
        return False
    return not attribute or getattr(module, attribute, None) is not None


def leads_elsewhere(caller: FrameType | None) -> bool:
    """Whether the fork of this caller is followed by an exec, or makes a daemon.

    Names in the code decide: `os.execv...` in the function that forks, `os.setsid` in that or in
    the one that called it, since daemonizing is often split into two.
    """
    if caller is None:
        return False
    if caller.f_code.co_filename.rpartition(os.sep)[2] in _LIBRARY_FILES:
        return True
    if not _EXECUTING.isdisjoint(_names(caller.f_code)):
        return True
    outer = caller.f_back
    near = _names(caller.f_code) | (_names(outer.f_code) if outer is not None else frozenset())
    return not _DETACHING.isdisjoint(near)


def _names(code: CodeType) -> frozenset[str]:
    # The code of a module names everything that its script does, so it decides nothing about an
    # exec; but daemons are often made there.
    return frozenset(code.co_names)
