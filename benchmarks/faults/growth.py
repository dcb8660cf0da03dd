"""What processes take while they live: a file of samples, and what of it grows with their work.

Owns no judgement of a single sample: a fault may leave a process larger for a moment. What grows
does so from the second quarter of a life to the last, beyond what it wavers by.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from statistics import median

from pasture.proc.smaps import read_memory
from pasture.trust.records import decoded

SAMPLES_OF_A_SLOPE = 200
"""The slope is the median of those between all pairs of as many."""


@dataclass(frozen=True, slots=True)
class Size:
    """What one process takes.

    Attributes:
        mappings: lines of its memory map.
        kib: anonymous memory that it has mapped in, shared or not.
        private_kib: memory that no other process shares.
    """

    descriptors: int
    threads: int
    mappings: int
    kib: int
    private_kib: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one role, at one moment.

    Attributes:
        life: names the run of a server.
        work: requests, tasks or seals before.
        size: of workers the median of each figure.
    """

    life: str
    role: str
    at_s: float
    work: int
    size: Size


def size_of(pid: int) -> Size:
    """Raises OSError where the process has ended."""
    proc = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    memory = read_memory(pid)
    if memory is None:
        raise ProcessLookupError(pid)
    return Size(
        descriptors=sum(1 for _ in (proc / "fd").iterdir()),
        threads=int(status["Threads"]),
        mappings=len((proc / "maps").read_bytes().splitlines()),
        kib=int(status["RssAnon"].split()[0]),
        private_kib=memory.private_bytes // 1024,
    )


class Growth:
    """Adds samples of one life to a file that has those of earlier ones."""

    def __init__(self, path: Path) -> None:
        self._path, self._began = path, time.time()
        self._life = f"{self._began:.0f}-{os.getpid()}"

    def note(self, pids: Mapping[str, Sequence[int]], work: int) -> None:
        """A sample of each role that has a process."""
        with self._path.open("a") as file:
            for role, some in pids.items():
                sizes = []
                for pid in some:
                    with contextlib.suppress(OSError):
                        sizes.append(asdict(size_of(pid)))
                if sizes:
                    size = Size(**{key: int(median(s[key] for s in sizes)) for key in sizes[0]})
                    at_s = round(time.time() - self._began, 1)
                    sample = Sample(self._life, role, at_s, work, size)
                    file.write(json.dumps(asdict(sample)) + "\n")


def read(path: Path) -> list[Sample]:
    """All samples of a file; a line that is cut off is left out."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):
                found.append(decoded(Sample, json.loads(line)))
    return found


@dataclass(frozen=True, slots=True)
class Course:
    """One figure of one role over one life, without its first quarter.

    Attributes:
        before, after: medians of the second quarter of the samples, and of the last.
        slope: per unit of work.
    """

    figure: str
    before: float
    after: float
    slope: float

    @classmethod
    def of(cls, figure: str, samples: Sequence[Sample]) -> Course:
        """Raises ValueError for fewer than eight samples."""
        quarter = len(samples) // 4
        if quarter < 2:
            raise ValueError("too few samples")
        points = [(sample.work, getattr(sample.size, figure)) for sample in samples[quarter:]]
        middle = [
            median(value for _, value in part) for part in (points[:quarter], points[-quarter:])
        ]
        thin = points[:: max(1, len(points) // SAMPLES_OF_A_SLOPE)]
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(thin, 2) if b[0] > a[0]]
        return cls(figure, middle[0], middle[1], median(slopes) if slopes else 0.0)


WAVERS_BY = {"descriptors": 3, "threads": 0, "mappings": 10, "kib": 4096}
"""From the second quarter of a life to the last. Celery takes 2.6 MB more after some of its
reloads, and gives them back; it has 46 to 49 descriptors."""


def grown(found: Mapping[str, Course]) -> list[str]:
    """What has grown over a life, a phrase each."""
    return [
        f"{name} {found[name].before:,.0f} to {found[name].after:,.0f}"
        for name, most in WAVERS_BY.items()
        if found[name].after - found[name].before > most
    ]


def courses(samples: Sequence[Sample]) -> Iterator[tuple[str, str, int, float, dict[str, Course]]]:
    """Of each life and role with enough samples: both names, units of work, minutes, courses."""
    for life in dict.fromkeys(sample.life for sample in samples):
        of_life = [sample for sample in samples if sample.life == life]
        for role in dict.fromkeys(sample.role for sample in of_life):
            some = [sample for sample in of_life if sample.role == role]
            if len(some) >= 8:
                found = {field.name: Course.of(field.name, some) for field in fields(Size)}
                yield life, role, some[-1].work - some[0].work, some[-1].at_s / 60, found
