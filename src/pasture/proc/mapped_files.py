"""How much of each file a process has in memory: `/proc/PID/smaps`.

Standard library alone. Source: proc_pid_smaps(5).
"""

from __future__ import annotations

from dataclasses import dataclass

from pasture.proc.maps import parse_smaps


@dataclass(frozen=True, slots=True)
class InMemory:
    """What of a file one process has in memory.

    Attributes:
        bytes: all of it, shared or not.
        private_bytes: what this process alone has.
    """

    bytes: int = 0
    private_bytes: int = 0

    def __add__(self, other: InMemory) -> InMemory:
        return InMemory(self.bytes + other.bytes, self.private_bytes + other.private_bytes)


def parse_mapped_files(text: str) -> dict[str, InMemory]:
    """What the text of a `smaps` file says of each file, by its name."""
    found: dict[str, InMemory] = {}
    for mapping, figures in parse_smaps(text):
        if mapping.is_file:
            private = figures.get("Private_Clean", 0) + figures.get("Private_Dirty", 0)
            size = InMemory(figures.get("Rss", 0), private)
            found[mapping.path] = found.get(mapping.path, InMemory()) + size
    return found
