"""An answer of the application in a warm-up: a status, and the begin of a body."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pasture.warmup import skeleton

KEPT_BYTES = skeleton.LIMIT_BYTES + 1
"""Of a body: enough to know its skeleton, or that it is too long for one."""


@dataclass(frozen=True)
class Response:
    """An answer."""

    status: int
    content_type: str = ""
    encoding: str = ""
    body: bytes = b""  # its first `KEPT_BYTES`

    @cached_property
    def skeleton(self) -> str:
        """The body's structure."""
        return skeleton.skeleton(self.content_type, self.body, self.encoding)
