"""Values that workers have recorded, compared: which entries each worker makes for itself.

The memory is made by the parent and shared by all that it forks: a digest an entry, of the first
process that had one, until another one has another. It is in no file: who reads a profile learns
nothing of values. Calls are made one at a time, under the lock of the profile's folder.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping

_BYTES = 1 << 20
_LENGTH_BYTES = 4


class Compared:
    """Digests by entry, in memory that a fork does not copy."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _BYTES)

    def differing(self, digests: Mapping[str, str]) -> frozenset[str]:
        """Add a process's digests; returns the entries of which two had different ones."""
        known = self._read()
        for entry, digest in digests.items():
            if known.setdefault(entry, digest) != digest:
                known[entry] = None
        data = json.dumps(known).encode()
        if len(data) <= _BYTES - _LENGTH_BYTES:  # else what is new is compared with nothing
            self._memory[:_LENGTH_BYTES] = len(data).to_bytes(_LENGTH_BYTES)
            self._memory[_LENGTH_BYTES : _LENGTH_BYTES + len(data)] = data
        return frozenset(entry for entry, digest in known.items() if digest is None)

    def _read(self) -> dict[str, str | None]:
        length = int.from_bytes(self._memory[:_LENGTH_BYTES])
        if not length:
            return {}
        known: dict[str, str | None] = json.loads(
            self._memory[_LENGTH_BYTES : _LENGTH_BYTES + length]
        )
        return known
