"""The outcomes of the requests of a load, and the two files that hold them.

The progress file holds `done answered` (decimal, fixed width, rewritten in place, so that a reader
never sees half a number). The result file is written at the end, whole.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NO_ANSWER = 0
"""The status of a request without an answer."""

_MAX_BODIES = 64  # digests kept for a URL; more add only that the body is not deterministic
_MAX_SKELETONS = 8  # bodies of a URL that are parsed: parsing takes time from the load
_MAX_PATHS = 500


@dataclass(frozen=True, slots=True)
class Exchange:
    """The outcome of one request."""

    method: str
    path: str  # with its query
    latency_ms: float
    status: int = NO_ANSWER
    content: bytes | None = None  # the body, decoded; None without one to compare
    media_type: str = ""
    error: str = ""  # the client's error, without an answer
    timed_out: bool = False  # the answer is unknown then


class Record:
    """Outcomes of the requests of a load.

    Attributes:
        done: number of requests that have ended.
    """

    def __init__(self, progress_file: str, skeleton: Callable[[str, bytes], str]) -> None:
        self.done = 0
        self._answered = 0
        self._skeleton = skeleton
        self._progress = os.open(progress_file, os.O_WRONLY | os.O_CREAT, 0o600)
        self._first_start = self._last_end = 0.0
        self._latencies_ms: list[float] = []
        self._statuses: dict[str, Counter[int]] = {}
        self._bodies: dict[str, Counter[str]] = {}
        self._skeletons: dict[str, dict[str, str]] = {}
        self._errors: dict[str, str] = {}
        self._timeouts: Counter[str] = Counter()
        self._paths: dict[str, None] = {}

    def add(self, outcome: Exchange) -> None:
        """Record a request that has just ended."""
        key = f"{outcome.method} {outcome.path}"
        statuses = self._statuses.setdefault(key, Counter())
        bodies = self._bodies.setdefault(key, Counter())
        if outcome.timed_out:
            self._timeouts[key] += 1
        else:
            statuses[outcome.status] += 1
            if outcome.status == NO_ANSWER:
                self._errors[key] = outcome.error
            elif outcome.content is not None:
                self._add_body(key, bodies, outcome.media_type, outcome.content)
        if len(self._paths) < _MAX_PATHS:
            self._paths[key] = None
        self._latencies_ms.append(outcome.latency_ms)
        self._last_end = time.perf_counter()
        start = self._last_end - outcome.latency_ms / 1000
        self._first_start = min(self._first_start or start, start)
        self.done += 1
        self._answered += outcome.status != NO_ANSWER and not outcome.timed_out
        os.pwrite(self._progress, b"%012d %012d" % (self.done, self._answered), 0)

    def _add_body(self, key: str, bodies: Counter[str], media_type: str, content: bytes) -> None:
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        if digest not in bodies and len(bodies) >= _MAX_BODIES:
            return
        bodies[digest] += 1
        known = self._skeletons.setdefault(key, {})
        if digest not in known and len(known) < _MAX_SKELETONS:
            known[digest] = self._skeleton(media_type, content)

    def write(self, path: str) -> None:
        """Write the result file, which must not exist."""
        with open(path, "x", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(self.as_dict(), file)

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values that JSON knows."""
        return {
            "requests": self.done,
            "seconds": self._last_end - self._first_start,
            "latencies_ms": [round(value, 3) for value in self._latencies_ms],
            "answers": {
                key: {
                    "statuses": self._statuses[key],
                    "bodies": self._bodies[key],
                    "skeletons": self._skeletons_of(key),
                    "error": self._errors.get(key),
                    "timeouts": self._timeouts[key],
                }
                for key in self._statuses
            },
            "paths": list(self._paths),
        }

    def _skeletons_of(self, key: str) -> Counter[str]:
        counts: Counter[str] = Counter()
        for digest, skeleton in self._skeletons.get(key, {}).items():
            counts[skeleton] += self._bodies[key][digest]
        return counts


def load_skeleton() -> Callable[[str, bytes], str]:
    """The function of `skeleton`, the file next to this one."""
    path = os.path.join(os.path.dirname(__file__), "skeleton.py")  # noqa: PTH118, PTH120
    spec = importlib.util.spec_from_file_location("pasture_skeleton", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    skeleton: Callable[[str, bytes], str] = module.skeleton
    return skeleton
