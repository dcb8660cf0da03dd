"""How much of each file a process has in memory: `/proc/PID/smaps`.

Standard library alone. Source: proc_pid_smaps(5).
"""

from __future__ import annotations

from dataclasses import dataclass

_BYTES_PER_KB = 1024


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
    path = ""
    for line in text.split("\n"):
        words = line.split(None, 5)
        if len(words) == 3 and words[2] == "kB":
            if path.startswith("/"):
                found[path] = found.get(path, InMemory()) + _figure(words[0], words[1])
        elif words and not words[0].endswith(":"):
            path = words[5].rstrip() if len(words) > 5 else ""
    return found


def _figure(name: str, kilobytes: str) -> InMemory:
    size = int(kilobytes) * _BYTES_PER_KB if kilobytes.isdecimal() else 0
    if name == "Rss:":
        return InMemory(bytes=size)
    if name in ("Private_Dirty:", "Private_Clean:"):
        return InMemory(private_bytes=size)
    return InMemory()
