"""What a sealed parent has gained since, and whether that is worth another seal.

A worker forked now shares what was sealed and, only until its first collection or use,
what came later. Another round walks the whole heap again and leaves the older workers with
pages that the parent has changed under them, so it must be worth it.
docs/internals/child-and-exit.md has the figures behind the limit.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

WORTH_A_ROUND_OBJECTS = 20_000
"""About 2 MB of private memory in each worker forked from then on."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Objects under the eyes of the collector, thus not frozen: then and now."""

    then: int
    now: int

    @property
    def objects(self) -> int:
        return max(0, self.now - self.then)

    @property
    def is_worth_a_round(self) -> bool:
        return self.objects >= WORTH_A_ROUND_OBJECTS


def unfrozen_objects() -> int:
    """Number of container objects that are not frozen. Cheap right after a seal only."""
    return len(gc.get_objects())
