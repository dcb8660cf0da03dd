"""pasture's logger, and the lines of a server's log that `pasture try` reads again.

One format writes each line and finds it. A format has a `%s` for each value. In the log `pasture: `
comes before it, from the handler of `pasture`'s logger, or as `PREFIX` in a logger of the server's.
Cuts lists that are too long for a line or a log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

PREFIX = "pasture: "

NO_REFORK = "no refork: %s"
REFORK_FAILED = "refork to generation %s failed: %s; generation %s goes on; %s"
REFORKED = "all workers are of generation %s"
NO_SEAL = "no seal: %s"
FAILED_IN_PARENT = "the import failed in the parent: "
WARM_UP_STEP = "warm-up: %s"
WARM_UP_END = "warm-up: %s requests, %s failed"


def _never_disabled(logger: logging.Logger) -> logging.Logger:
    """A logger that an application's configuration of logging does not switch off.

    Such a configuration disables all loggers that it does not name. Levels and handlers are free.
    """
    kept = {"disabled": property(lambda _: False, lambda _, disabled: None)}
    logger.__class__ = type("PastureLogger", (type(logger),), kept)
    return logger


log = _never_disabled(logging.getLogger("pasture"))


Log = Callable[[int, str], object]
"""Writes a line to a server's log, at a level of `logging`."""


def write_to_log(level: int, line: str) -> None:
    """Write a line to pasture's own log."""
    log.log(level, "%s", line)


def enable(logger: object) -> None:
    """Have a server's logger write again, after the import of an application in its parent.

    Without a preload the application's configuration disables it only in workers.
    """
    if isinstance(logger, logging.Logger):
        logger.disabled = False


def find(line: str, log: str) -> tuple[str, ...] | None:
    """The values of the first line of a log that has this format; None without one."""
    *texts, last = map(re.escape, (PREFIX + line).split("%s"))
    end = last or r"\s*$"
    found = re.search("".join(f"{text}(.+?)" for text in texts) + end, log, re.MULTILINE)
    return None if found is None else found.groups()


def some(names: Sequence[str], limit: int) -> str:
    """The first names of a list, as in `a, b and 3 more`."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def first_of(lines: Sequence[str], limit: int, more: str) -> list[str]:
    """The first lines, and one for the rest, as `3 more differ`, of which `more` is the end."""
    left = len(lines) - limit
    return [*lines[:limit], *([f"{left} more {more}"] if left > 0 else [])]
