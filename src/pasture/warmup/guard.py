"""The only place where code of the application runs inside the process that forks.

The code has a limited time, and an ending signal stops it. Its changes of the process's state are
undone, except variables that modules set while they are loaded: workers do not load them again.
Only its `KeyboardInterrupt` ends the process, and a process that it forks does not return from it.
`interrupts` says which code cannot be stopped.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, perf_counter
from types import FrameType
from typing import Any, Generic, TypeVar

from pasture.errors import UnsupportedInterpreter
from pasture.log_lines import log
from pasture.observing import Audit, is_importing
from pasture.warmup.interrupts import Interrupted, Interrupts
from pasture.warmup.process_state import ProcessState

Result = TypeVar("Result")

STEP_S = 30.0
"""Limit of a step. gunicorn kills a worker without an answer after the same time."""

TOTAL_S = 300.0

_MIN_S = 1.0
"""Time for a step after the limit of all steps: the end of an application."""

_TEXT_CHARACTERS = 500


class Ended(KeyboardInterrupt):
    """A signal has asked the process to end, and its own handler has been called."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Result]):
    value: Result | None  # the returned value; None if it raised
    error: str | None  # the exception; None if it returned
    # Its changes to the process, in words. They are undone where possible.
    changed: tuple[str, ...]
    seconds: float  # duration


class Guard:
    """Runs the steps of one warm-up, one after the other, inside a `with` of this object.

    Args:
        on_start: takes the name of each step before it runs.
        step_s, total_s: limit of a step, and of all from now on, in seconds; 0 for no limit.

    Attributes:
        has_limit: whether steps can be stopped: only in the main thread.
    """

    def __init__(
        self,
        on_start: Callable[[str], object] = lambda name: None,
        *,
        step_s: float = STEP_S,
        total_s: float = TOTAL_S,
    ) -> None:
        self.has_limit = Interrupts.are_possible()
        self._interrupts = Interrupts()
        self._audit = Audit(self._hear)
        self._imported: dict[str, str | None] = {}
        self._outer: FrameType | None = None
        self._on_start = on_start
        self._step_s = step_s
        self._deadline = monotonic() + total_s if total_s else None

    def __enter__(self) -> Guard:
        with suppress(UnsupportedInterpreter):
            self._audit.start_or_refuse()
        if self.has_limit:
            self._interrupts.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Call an ending signal's own handler; raises Ended, or the handler's error."""
        self._audit.drop()
        if not self.has_limit:
            return
        self._interrupts.__exit__()
        for number in self._interrupts.ended_by:
            signal.raise_signal(number)
        if self._interrupts.ended_by and kind is None:
            raise Ended

    @property
    def is_over(self) -> bool:
        """Whether the time for all steps is over."""
        return self._deadline is not None and monotonic() >= self._deadline

    def run(
        self, name: str, function: Callable[[], Result], *, least_s: float = 0.0
    ) -> Outcome[Result]:
        """Run a step, for at least `least_s`. Raises Ended, or the step's KeyboardInterrupt."""
        self._on_start(name)
        if not self.has_limit:
            return self._run(name, function, in_main_thread=False)
        limits = [max(self._step_s, least_s)] if self._step_s else []
        if self._deadline is not None:
            limits.append(max(self._deadline - monotonic(), _MIN_S, least_s))
        limit_s = min(limits, default=0.0)
        call = functools.partial(self._interrupts.call, function, limit_s)
        outcome = self._run(name, call, in_main_thread=True)
        if self._interrupts.ended_by:
            raise Ended(f"{name}: {outcome.error}")
        return outcome

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note variables that modules set while they are loaded; None is one that was deleted.

        A module is loaded only here: each worker needs the variables that it sets, so they stay.
        """
        if event in ("os.putenv", "os.unsetenv") and is_importing(self._outer):
            name, *value = map(os.fsdecode, arguments)
            self._imported[name] = value[0] if value else None

    def _run(
        self, name: str, function: Callable[[], Result], *, in_main_thread: bool
    ) -> Outcome[Result]:
        own, started = os.getpid(), perf_counter()
        state = ProcessState(in_main_thread=in_main_thread)
        value: Result | None = None
        error: str | None = None
        self._imported, self._outer = {}, sys._getframe()
        try:
            value = function()
        except Interrupted as raised:
            error = str(raised)
        except KeyboardInterrupt:
            if os.getpid() == own:
                raise
        except BaseException as raised:
            error = describe(raised)
        finally:
            if os.getpid() != own:  # else a second server would go on here
                try:
                    log.warning("a process forked by %s returned from it and ends here", name)
                finally:
                    os._exit(0)
            self._outer = None
            changed = state.restore(self._imported)
        return Outcome(value, error, changed, perf_counter() - started)


def describe(raised: BaseException) -> str:
    """The type and text of an application's exception, whose text may raise, too."""
    try:
        text = str(raised)
    except Exception:
        text = "its text cannot be read"
    name = type(raised).__name__
    return f"{name}: {text[:_TEXT_CHARACTERS]}" if text else name
