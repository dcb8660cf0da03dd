"""Putting a call behind the user's `pre_fork` hook, whatever that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class BeforeFork:
    """The user's `pre_fork`, then a call of ours: the last thing before the fork.

    The user's comes first, so that what it closes and builds is in its final state.
    """

    def __init__(self, users: Callable[[Any, Any], object], ours: Callable[[], None]) -> None:
        self._users = users
        self._ours = ours

    def __call__(self, server: Any, worker: Any) -> None:
        self._users(server, worker)
        self._ours()


def call_before_fork(cfg: Any, ours: Callable[[], None]) -> None:
    """Have `ours` called after the user's `pre_fork`. A second call changes nothing.

    Args:
        cfg: gunicorn's configuration; an application may keep the same one at a reload.
    """
    if not isinstance(cfg.pre_fork, BeforeFork):
        cfg.set("pre_fork", BeforeFork(cfg.pre_fork, ours))
