"""Lines of a server's log that `pasture try` reads again: one format writes each and finds it.

A format has a `%s` for each value. In the log `pasture: ` stands before it, by the handler of
`pasture`'s logger, or as `PREFIX` in a logger of the server's.
"""

from __future__ import annotations

import re

PREFIX = "pasture: "

NO_REFORK = "no refork: %s"
REFORK_FAILED = "refork to generation %s failed: %s; generation %s goes on; %s"
REFORKED = "all workers are of generation %s"
NO_SEAL = "%s: no seal"
PROBE = "probe: %s"
STARTING_ANEW = "probe: starting anew without %s"
THE_WARM_UP = "the warm-up"
WARM_UP_STEP = "warm-up: %s"
WARM_UP_END = "warm-up: %s requests, %s failed"


def find(line: str, log: str) -> tuple[str, ...] | None:
    """The values of the first line of a log that has this format; None without one."""
    *texts, last = map(re.escape, (PREFIX + line).split("%s"))
    end = last or r"\s*$"
    found = re.search("".join(f"{text}(.+?)" for text in texts) + end, log, re.MULTILINE)
    return None if found is None else found.groups()
