"""Numbers as arguments and options: click's own, under names that users understand.

click says of a word in the place of a number that it is "not a valid integer range".
"""

from __future__ import annotations

import click


class Whole(click.IntRange):
    """An integer within bounds."""

    name = "integer"


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"


class Pid(click.IntRange):
    """The number of a process."""

    name = "process id, a number as `ps` and `pgrep` show it"


PID = Pid(min=1)
