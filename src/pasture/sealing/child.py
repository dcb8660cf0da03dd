"""What a forked child does first: it takes the steps that its parent's policy has for children.

Owns the one hook of `os.register_at_fork`. Invariant: if no policy is armed, a child is as it
would be without pasture. A program started by exec is a new interpreter and never concerned.
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
    """Make children of this process take the policy's steps for children, and theirs too.

    Call it in the parent, before the fork. The latest call counts.
    """
    global _armed, _hooked
    _armed = policy
    if not _hooked:
        os.register_at_fork(after_in_child=take_steps)
        _hooked = True


def take_steps() -> None:
    """Take the steps of the armed policy, right after the fork, in the child.

    The hook calls it. Call it by hand only after a fork of C code, which runs no hook.
    """
    if _armed is None:
        return
    for child_step in _armed.in_child:
        _CHILD_STEPS[child_step]()
    for exit_step in _armed.at_exit:
        _EXIT_STEPS[exit_step]()
