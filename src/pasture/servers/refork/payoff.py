"""Whether a refork was worth it: what the whole server takes, before and after.

Pure. Both figures are taken with workers that have served about as many requests, because
a fresh worker shares more than it will keep: `after` counts once the workers of the new
generation have served on average as many as those of the old one had.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one round came to.

    Attributes:
        generation: that was reached.
        before_bytes, after_bytes: total PSS of the server.
        requests: a worker had served on average, both times.
        least_saving: fraction of the memory before that makes it pay.
    """

    generation: int
    before_bytes: int
    after_bytes: int
    requests: int
    least_saving: float

    @property
    def saved_bytes(self) -> int:
        return self.before_bytes - self.after_bytes

    @property
    def pays(self) -> bool:
        return self.saved_bytes >= self.least_saving * self.before_bytes

    def __str__(self) -> str:
        figures = (
            f"total PSS {self.before_bytes / 1e6:.1f} MB before, {self.after_bytes / 1e6:.1f} MB "
            f"after, at {self.requests} requests a worker"
        )
        if self.pays:
            share = 100 * self.saved_bytes / self.before_bytes
            return f"generation {self.generation} saves {share:.0f} %: {figures}"
        return (
            f"generation {self.generation} does not pay: {figures}; no further refork "
            "until the next HUP"
        )


@dataclass(slots=True)
class Payoff:
    """The open question of one round.

    Attributes:
        before_bytes: None while it is not measured, or cannot be.
        settled_at: requests a worker, on average, from which `after` counts.
        least_saving: see `Verdict`.
    """

    generation: int
    before_bytes: int | None
    settled_at: float
    least_saving: float

    def verdict(self, after_bytes: int) -> Verdict | None:
        """None where there is nothing to compare with."""
        if self.before_bytes is None:
            return None
        requests = round(self.settled_at)
        return Verdict(self.generation, self.before_bytes, after_bytes, requests, self.least_saving)
