"""Closes connections that must not cross a fork: two processes would share them.

Owns the user's hooks. The cards of libraries say what else is closed (`libraries/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from pasture.fork_safety import kept
from pasture.fork_safety.libraries import LIBRARIES, sqlalchemy

Hook = TypeVar("Hook", bound=Callable[[], object])

_hooks: list[Callable[[], object]] = []

_unsafe: str | None = None


def before_fork(hook: Hook) -> Hook:
    """Call a function before each seal, after the warm-up. A decorator.

    Close there what your application holds open: sockets, clients, threads. Runs in the parent, in
    the order of registration.

    Returns:
        The function itself.
    """
    _hooks.append(hook)
    return hook


def fork_unsafe(reason: str) -> None:
    """Mark this process as one from which nothing must be forked any more.

    A refork then leaves this worker alone. Cannot be undone. Safe at any time, with other threads
    running too.

    Args:
        reason: text for the log, as in "CUDA is initialized".
    """
    global _unsafe
    _unsafe = reason


def unsafe_reason() -> str | None:
    """Why nothing must be forked from this process any more; None if it may be."""
    return _unsafe


def close_connections(*, keep: bool = False) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """Run the hooks, and close the connections of libraries that are known.

    In the parent, before the fork. Safe with other threads running, whose connections may stay. One
    of Django's that is in a transaction stays open, and children forget it.

    Args:
        keep: leave all connections to databases open, for a process that goes on using them;
            its children forget them.

    Returns:
        Dict of kind to the number closed, and what went wrong, a line each.
    """
    counts: dict[str, int] = {}
    problems: list[str] = []
    for library in LIBRARIES:
        library.prepare_children()
    known = [one for library in LIBRARIES for one in library.closings]
    if keep:
        kept.keep(sqlalchemy.all_engines())
        known = [one for one in known if not one.to_database]
    databases_first = sorted(known, key=lambda one: not one.to_database)
    closings = [("hooks", _run_hooks), *((one.kind, one.close) for one in databases_first)]
    for kind, close in closings:
        try:
            closed = close(problems)
        except Exception as error:
            problems.append(f"{kind}: {type(error).__name__}: {error}")
            continue
        if closed:
            counts[kind] = closed
    return counts, tuple(problems)


def _run_hooks(problems: list[str]) -> int:
    for hook in _hooks:
        try:
            hook()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            name = getattr(hook, "__qualname__", repr(hook))
            problems.append(f"hook {name}: {type(error).__name__}: {error}")
    return len(_hooks)
