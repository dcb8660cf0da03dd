"""Programs that were not started out of an image: how many, when last, and why.

`pasture-python` counts them in a file next to the image (src/stub/missed.c). Owns the reading, and
the end of the file: it goes with the image, and is empty for one that has just been made.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pasture.errors import UsageError
from pasture.trust import foreign_files

_MAX_BYTES = 1 << 16
_ROW = re.compile(r"(?P<count>\d{10}) (?P<last>\d{12}) (?P<why>.*\S) *")


class Missed(NamedTuple):
    """Programs that `python` ran for one reason; `last` in seconds since 1970."""

    times: int
    last: int
    why: str

    @property
    def sentence(self) -> str:
        """For people."""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.last))
        return f"python ran {self.times} times in its place, last on {when}: {self.why}"


def beside(image: Path) -> Path:
    """Where the counts of an image are, or those of a folder of images."""
    return image / ".missed" if image.is_dir() else image.with_name(f"{image.name}.missed")


def read(image: Path) -> list[Missed]:
    """What was counted, the most frequent first; nothing where it cannot be read."""
    try:
        data = foreign_files.read_foreign(beside(image), most_bytes=_MAX_BYTES, owners=None)
    except UsageError:
        return []
    rows = (_ROW.fullmatch(line) for line in data.decode("utf-8", "replace").splitlines())
    found = [Missed(int(row["count"]), int(row["last"]), row["why"]) for row in rows if row]
    return sorted(found, key=lambda one: -one.times)


def forget(image: Path) -> None:
    """The counts were of another image of that name."""
    with suppress(OSError):
        beside(image).unlink()
