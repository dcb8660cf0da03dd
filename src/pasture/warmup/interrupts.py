"""Stops code in the main thread: after a time, or when the process is asked to end.

Invariant: afterwards handlers and alarm are restored, those of C code too, and no signal is lost.

The handler of a signal raises `Interrupted` in the code, and again each second while the code goes
on. C code that never returns to the interpreter cannot be stopped: the kernel handles a second
ending signal and ends the process.

Source: signal(7); CPython 3.14 Modules/signalmodule.c; PEP 475.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native

Result = TypeVar("Result")

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
"""Signals by which a server is asked to end."""

AGAIN_S = 1.0
"""Time after which the exception is raised again, in code that goes on."""


@dataclass(frozen=True, slots=True)
class Handling:
    """The handler of a signal, for Python and for the kernel: C code sets handlers, too."""

    handler: Any  # Python's handler; None for C code's
    action: bytes | None  # the kernel's action; None without the extension

    @property
    def can_be_put_back(self) -> bool:
        """Whether enough is known to restore it."""
        return self.handler is not None or self.action is not None


class Interrupted(BaseException):
    """Raised in the code that is to stop. No `Exception`, so that few programs catch it."""


class Interrupts:
    """Calls functions and stops them, within a `with` of this object. In the main thread.

    Attributes:
        ended_by: ending signals that arrived meanwhile, for their own handlers, in order.
    """

    def __init__(self) -> None:
        self.ended_by: list[int] = []
        self._limit_s = 0.0
        self._reason: str | None = None
        self._inside = False
        self._before: dict[int, Handling] = {}
        self._timer = (0.0, 0.0)
        self._started = 0.0

    @staticmethod
    def are_possible() -> bool:
        """Whether this is the thread in which handlers of signals run."""
        return threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Interrupts:
        """Take over the alarm, and those ending signals that have a handler.

        Signals that are ignored or have the default action keep it. Without the extension an alarm
        that C code handles stays, too: calls have no limit then.
        """
        self._started = time.monotonic()
        alarm = handling_of(signal.SIGALRM)
        if alarm.can_be_put_back:
            self._timer = signal.setitimer(signal.ITIMER_REAL, 0)
            self._take_over(signal.SIGALRM, self._alarm)
        for number in ENDING:
            if callable(signal.getsignal(number)):
                self._take_over(number, self._note)
                with suppress(UnsupportedInterpreter):  # the kernel handles a second one
                    native().reset_signal_after_first(number)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            put_back(number, before)
        left_s, interval_s = self._timer
        if left_s:
            passed_s = time.monotonic() - self._started
            signal.setitimer(signal.ITIMER_REAL, max(left_s - passed_s, 1e-3), interval_s)

    def call(self, function: Callable[[], Result], limit_s: float) -> Result:
        """Call a function, unless an ending signal has arrived.

        Args:
            limit_s: for the call, in seconds; 0 for no limit.

        Raises:
            Interrupted: its time was over, or an ending signal arrived, even if the function caught
                the exception and returned.
        """
        self._limit_s = limit_s
        if not self.ended_by:
            self._reason = None
        try:
            try:
                self._inside = True
                if not self.ended_by:
                    self._set_alarm(limit_s)
                    result = function()
            finally:
                self._inside = False
                self._set_alarm(0)
        except Interrupted:
            self._inside = False  # raised before the lines above could run
            self._set_alarm(0)
            raise
        if self._reason is not None:
            raise Interrupted(self._reason)
        return result

    def _take_over(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        self._before[number] = handling_of(number)
        signal.signal(number, handler)

    def _set_alarm(self, first_s: float) -> None:
        if signal.SIGALRM in self._before:
            signal.setitimer(signal.ITIMER_REAL, first_s, AGAIN_S)

    def _alarm(self, number: int, frame: FrameType | None) -> None:
        if self._reason is None:
            self._reason = f"no answer in {self._limit_s:g} s, stopped {_place(frame)}"
        self._interrupt()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.ended_by.append(number)
        self._reason = f"ended by {signal.Signals(number).name}, {_place(frame)}"
        if self._inside:
            self._set_alarm(AGAIN_S)
        self._interrupt()

    def _interrupt(self) -> None:
        if self._inside:
            raise Interrupted(self._reason)


def _place(frame: FrameType | None) -> str:
    if frame is None:
        return "in C code"
    code = frame.f_code
    return f"in {code.co_qualname}, {code.co_filename}:{frame.f_lineno}"


def handling_of(number: int) -> Handling:
    try:
        action = native().signal_action(number)
    except UnsupportedInterpreter:
        action = None
    return Handling(signal.getsignal(number), action)


def put_back(number: int, before: Handling) -> None:
    """Restore the handler of a signal. In the main thread."""
    # The signal never has its default effect in between.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        signal.signal(number, signal.SIG_DFL if before.handler is None else before.handler)
        if before.action is not None:
            native().set_signal_action(number, before.action)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
