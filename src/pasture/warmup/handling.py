"""How signals are handled, as Python and as the kernel know it, and putting it back.

Python's table knows nothing (None) of a handler that was there before the interpreter, and takes
one that C code has set since for what was there first. `signal.signal` would set the default in its
place.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native


@dataclass(frozen=True, slots=True)
class Handling:
    """How a signal is handled.

    Attributes:
        handler: that Python knows; None of C code.
        action: that the kernel knows; None without the extension.
    """

    handler: Any
    action: bytes | None

    @property
    def can_be_put_back(self) -> bool:
        """Whether enough is known of it."""
        return self.handler is not None or self.action is not None


def look(number: int) -> Handling:
    """How a signal is handled now."""
    try:
        action = native().signal_action(number)
    except UnsupportedInterpreter:
        action = None
    return Handling(signal.getsignal(number), action)


def put_back(number: int, before: Handling) -> None:
    """Have a signal handled as before. In the main thread."""
    with _blocked(number):  # not even for a moment has it the default effect
        signal.signal(number, signal.SIG_DFL if before.handler is None else before.handler)
        if before.action is not None:
            native().set_signal_action(number, before.action)


@contextmanager
def _blocked(number: int) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
