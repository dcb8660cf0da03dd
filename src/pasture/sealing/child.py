"""A forked child first takes the steps that its parent's policy has for children.

Owns the one hook of `os.register_at_fork`, and the warning of a sealed process whose workers were
started without a fork. Invariant: without an armed policy a child is as without pasture. A program
started by exec is a new interpreter and takes no steps.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Mapping

from pasture.log_lines import log
from pasture.sealing import exit, gc_settings, lost
from pasture.sealing.policy import ChildStep, ExitStep, Policy

_CHILD_STEPS: Mapping[ChildStep, Callable[[], None]] = {
    "gc-on": gc_settings.turn_on,
    "full-out-of-line": gc_settings.run_full_out_of_line,
}
_EXIT_STEPS: Mapping[ExitStep, Callable[[], None]] = {
    "flush-files": exit.flush_open_files_too,
    "leave": exit.install,
}

_STARTING = ("multiprocessing.popen_forkserver", "multiprocessing.popen_spawn_posix")
"""Modules that start processes which share nothing with the sealed one."""

_armed: Policy | None = None
_hooked = False
_watched: set[int] = set()
"""Pid of the sealed process, until it forks."""


def arm(policy: Policy) -> None:
    """Have children and their children take the policy's steps. The latest policy counts."""
    global _armed, _hooked
    _armed = policy
    if not _hooked:
        os.register_at_fork(before=lost.note, after_in_child=take_steps)
        _hooked = True


def take_steps() -> None:
    """Take the steps of the armed policy, in the child. Call this only after a fork by C code."""
    if _armed is None:
        return
    lost.show()
    for child_step in _armed.in_child:
        _CHILD_STEPS[child_step]()
    for exit_step in _armed.at_exit:
        _EXIT_STEPS[exit_step]()


def watch() -> None:
    """Warn at the exit if this sealed process has not forked."""
    if not _watched:
        _watched.add(os.getpid())
        os.register_at_fork(after_in_parent=_watched.clear)
        atexit.register(_complain)


def _complain() -> None:
    if os.getpid() in _watched and any(name in sys.modules for name in _STARTING):
        log.warning(
            "this process is sealed and has not forked: multiprocessing started its processes by "
            "another method. Use `with pasture.sealed() as workers`, whose context forks, or "
            "multiprocessing.set_start_method('fork')"
        )
