"""What a forked child does before anything else: the steps that its parent's policy has.

Owns the one hook with `os.register_at_fork`. Invariant: without an armed policy a child is
as it would be without pasture. A process started through exec is never touched: its
interpreter is a new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from pasture.sealing import exit, gc_settings
from pasture.sealing.policy import ChildStep, ExitStep, Policy

_CHILD_STEPS: Mapping[ChildStep, Callable[[], None]] = {
    "gc-on": gc_settings.turn_on,
    "full-out-of-line": gc_settings.run_full_out_of_line,
}
_EXIT_STEPS: Mapping[ExitStep, Callable[[], None]] = {
    "flush-files": exit.flush_open_files_too,
    "leave": exit.install,
}

_armed: Policy | None = None
_hooked = False


def arm(policy: Policy) -> None:
    """From now on children of this process take the policy's steps for them.

    In the parent, before the fork; the latest call counts. Children inherit it and pass
    it on to their own.
    """
    global _armed, _hooked
    _armed = policy
    if not _hooked:
        os.register_at_fork(after_in_child=take_steps)
        _hooked = True


def take_steps() -> None:
    """Take the steps of the policy that is armed. In the child, right after the fork.

    Called by the hook; by hand only where the fork was C code's, which runs no hook.
    """
    if _armed is None:
        return
    for child_step in _armed.in_child:
        _CHILD_STEPS[child_step]()
    for exit_step in _armed.at_exit:
        _EXIT_STEPS[exit_step]()
