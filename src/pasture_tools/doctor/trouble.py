"""Dangers to a server, the most urgent first, by the memory of its processes.

Pure functions, which `top`, `doctor` and `explain` share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pasture.proc import tasks
from pasture.proc.cgroup import Usage
from pasture.proc.smaps import Memory
from pasture.scoreboard.growth import growth_of
from pasture.scoreboard.layout import Entry
from pasture_tools.display.units import count, megabytes

MIN_PRIVATE_BYTES = 8_000_000
"""Private memory of a worker that is worth reporting."""

NO_ANSWERS = "it answers nothing until it is killed"

_NEAR = 0.1
_HALF = 0.5
_NOT_PRELOADED = 0.6
_LITTLE = 0.8


@dataclass(frozen=True, slots=True)
class Worker:
    pid: int
    memory: Memory
    entry: Entry | None = None  # on the scoreboard
    is_locked: bool = False  # whether it waits for a lock, and cannot go on


@dataclass(frozen=True, slots=True)
class Trouble:
    """A danger to a server."""

    kind: str  # name of a check of `pasture doctor`
    what: str  # one sentence without a full stop
    cost: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}"


def troubles(
    master: Memory, workers: Sequence[Worker], usage: Usage | None, *, is_sealed: bool
) -> tuple[Trouble, ...]:
    """All dangers, the most urgent first.

    Args:
        usage: of the control group with the least room; None without a limit.
    """
    found = [*_killed(usage, workers), *_limit(usage)]
    found += (
        Trouble(
            "hung",
            f"worker {one.pid} waits for a lock",
            NO_ANSWERS,
            f"pasture doctor --hung {one.pid}",
        )
        for one in workers
        if one.is_locked
    )
    leaks = [*_leak(workers)]
    if workers:
        found += leaks
        found += _sharing(master, workers) if is_sealed else ()
        found += () if leaks else _preload(master, workers)
    return tuple(found)


def is_locked(pid: int, entry: Entry | None) -> bool:
    """Whether a worker waits for a lock, and cannot go on."""
    if entry is None or entry.role != "worker":
        return False
    return tasks.is_locked(pid, main_serves=entry.main_serves)


def is_near(usage: Usage) -> bool:
    """Whether less than a tenth of a limit is left."""
    return usage.headroom_bytes < _NEAR * usage.limit_bytes


def _limit(usage: Usage | None) -> Iterator[Trouble]:
    if usage is not None and is_near(usage):
        yield Trouble(
            "limit",
            f"{megabytes(usage.headroom_bytes)} are left of the limit of "
            f"{megabytes(usage.limit_bytes)}",
            "at the limit the kernel ends a process",
            "fewer workers (`pasture size`), `--max-uss`, or a higher limit",
        )


def _killed(usage: Usage | None, workers: Sequence[Worker]) -> Iterator[Trouble]:
    if usage is not None and usage.oom_kills:
        # Workers as large as the largest that leave a tenth of the limit.
        private = [one.memory.private_bytes for one in workers]
        shared = max(0, usage.limit_bytes - usage.headroom_bytes - sum(private))
        left = (1 - _NEAR) * usage.limit_bytes - shared
        fit = max(0, int(left / max(1, max(private, default=1))))
        size = (
            f"{count(fit, 'worker')} of this size fit; " if workers and fit < len(workers) else ""
        )
        yield Trouble(
            "killed",
            f"under the limit of {megabytes(usage.limit_bytes)} processes were killed for memory: "
            f"{usage.oom_kills}",
            "the requests of a worker that was killed are lost",
            f"{size}fewer workers (`pasture size`), `--max-uss`, or a higher limit",
        )


def _leak(workers: Sequence[Worker]) -> Iterator[Trouble]:
    found = [
        (growth, one)
        for one in workers
        if (growth := growth_of(one.entry, one.memory.anonymous_bytes)) is not None
    ]
    if found:
        growth, worst = max(found, key=lambda pair: pair[0].bytes_a_request)
        others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        yield Trouble(
            "leak",
            f"worker {worst.pid}{others} {growth}",
            f"{megabytes(worst.memory.private_bytes)} so far, which no seal keeps shared",
            f"pasture explain {worst.pid} says what grows; until that is fixed, `--max-uss` "
            "replaces workers in time",
        )


def _sharing(master: Memory, workers: Sequence[Worker]) -> Iterator[Trouble]:
    shared = sum(one.memory.shared_bytes for one in workers) / len(workers)
    lost = master.rss_bytes - shared
    if shared < _HALF * master.rss_bytes and lost > MIN_PRIVATE_BYTES:
        worst = max(workers, key=lambda one: one.memory.private_bytes)
        yield Trouble(
            "sharing",
            f"workers share {shared / master.rss_bytes:.0%} of what the master holds, and have "
            "written to the rest",
            f"up to {megabytes(lost)} for each worker",
            f"pasture explain {worst.pid} says what was written",
        )


def _preload(master: Memory, workers: Sequence[Worker]) -> Iterator[Trouble]:
    private = sum(one.memory.private_bytes for one in workers) / len(workers)
    rss = sum(one.memory.rss_bytes for one in workers) / len(workers)
    if holds_little(master, private, rss):
        yield Trouble(
            "preload",
            held(master, private, rss),
            f"up to {megabytes(private)} for each worker",
            "the application, or much of it, is loaded after the fork: pasture doctor says what "
            "loads it before",
        )


def holds_little(master: Memory, private: float, rss: float) -> bool:
    """Whether workers of this private and resident size have loaded what the master lacks."""
    is_own = private > _NOT_PRELOADED * rss and private > MIN_PRIVATE_BYTES
    return is_own and master.rss_bytes < _LITTLE * rss


def held(master: Memory, private: float, rss: float) -> str:
    """The memory of workers of this private and resident size and of the master, in words."""
    return (
        f"workers hold {megabytes(private)} of {megabytes(rss)} for themselves, and the "
        f"master only {megabytes(master.rss_bytes)}"
    )
