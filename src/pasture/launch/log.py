"""The text that a program has printed: its end, and the exception that ended it."""

from __future__ import annotations

import re

_TAIL_LINES = 15
_TRACEBACK = "Traceback (most recent call last):"
# The last line of a traceback: an exception's dotted name, alone or with a message.
_EXCEPTION_LINE = re.compile(r"[A-Za-z_][\w.]*(: .*)?")


def tail(log: str, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log, indented; says so if there are none."""
    kept = [line.rstrip() for line in log.splitlines() if line.strip()][-lines:]
    return "\n".join(f"    {line}" for line in kept) or "    (the log is empty)"


def last_exception(log: str) -> str | None:
    """The last line of the last traceback in a log, as in `ValueError: no such thing`."""
    _, found, last = log.rpartition(_TRACEBACK)
    if not found:
        return None
    return next((line for line in last.splitlines() if _EXCEPTION_LINE.fullmatch(line)), None)
