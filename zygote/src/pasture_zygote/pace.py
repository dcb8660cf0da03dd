"""How soon a zygote may be made again, if that failed or was in vain. Pure: times are arguments."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_S = 1.0
MAX_S = 60.0
CALM_S = 30.0
"""Without a try for so long the next one is due at once."""

_AT_ONCE = 1
"""So many changes in a row are followed at once: one edit is no storm."""


@dataclass(slots=True)
class Pace:
    """When the next try is due; of those that follow closely each waits twice as long.

    Attributes:
        due_s: the next try, not before.
    """

    due_s: float = 0.0
    _delay_s: float = 0.0
    _in_a_row: int = 0
    _latest_s: float = float("-inf")

    def changed(self, now_s: float) -> None:
        """What is ready has to be made again."""
        if now_s - self._latest_s > CALM_S + self._delay_s:
            self._in_a_row, self._delay_s = 0, 0.0
        self._in_a_row += 1
        if self._in_a_row > _AT_ONCE:
            self._wait(now_s)
        self._latest_s = now_s

    def failed(self, now_s: float) -> None:
        """A try was in vain."""
        self._in_a_row += 1
        self._wait(now_s)
        self._latest_s = now_s

    def _wait(self, now_s: float) -> None:
        self._delay_s = min(max(FIRST_S, 2 * self._delay_s), MAX_S)
        self.due_s = now_s + self._delay_s
