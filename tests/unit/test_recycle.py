"""When a worker is replaced for its private memory."""

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasture.errors import UsageError
from pasture.proc.smaps import own_private_bytes
from pasture.servers.recycle import (
    LOOK_AT_LEAST_EVERY,
    MIN_BYTES,
    MemoryLimit,
    UssWatch,
    most_bytes_per_fault,
    parse_limit,
    read_faults,
)

PAGE = 4096


class Worker:
    """A worker whose memory grows by page faults, and that counts how often it is read."""

    def __init__(self, uss: int = 0) -> None:
        self.uss_bytes = uss
        self.faults = 1000
        self.reads = 0

    def grow(self, os_pages: int) -> None:
        self.faults += os_pages
        self.uss_bytes += os_pages * PAGE

    def uss(self) -> int:
        self.reads += 1
        return self.uss_bytes

    def watch(self, limit: int, jitter: float = 0.0, draw: float = 0.0) -> UssWatch:
        return UssWatch(
            MemoryLimit(limit, jitter),
            uss=self.uss,
            faults=lambda: self.faults,
            bytes_per_fault=PAGE,
            draw=lambda: draw,
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200M", 200 << 20),
        ("1.5G", 3 << 29),
        ("2048k", 2 << 20),
        (" 64MiB ", 64 << 20),
        ("1048576", 1 << 20),
        ("100mb", 100 << 20),
    ],
)
def test_a_limit_is_read_as_users_write_it(text: str, expected: int) -> None:
    assert parse_limit(text).limit_bytes == expected


@pytest.mark.parametrize(
    ("text", "jitter"),
    [
        ("", 0.1),
        ("much", 0.1),
        ("200T", 0.1),
        ("12K", 0.1),
        ("-5M", 0.1),
        ("inf", 0.1),
        ("nan", 0.1),
        ("200M", 1.0),
        ("200M", -0.1),
        ("200M", "some"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(text: str, jitter: str | float) -> None:
    with pytest.raises(UsageError):
        parse_limit(text, jitter)


def test_the_jitter_only_lowers_a_limit() -> None:
    limit = MemoryLimit(100 << 20, 0.2)
    assert limit.of_one_worker(lambda: 0.0) == 100 << 20
    assert limit.of_one_worker(lambda: 0.5) == 90 << 20
    assert Worker().watch(100 << 20, 0.2, 1.0).limit_bytes == 80 << 20


def test_memory_is_not_read_while_the_faults_cannot_have_brought_it_to_the_limit() -> None:
    worker = Worker(10 << 20)
    watch = worker.watch(100 << 20)
    assert not watch.has_passed()
    for _ in range(100):
        worker.grow(10)
        assert not watch.has_passed()
    assert worker.reads == 1


def test_memory_that_became_private_without_a_fault_is_seen_after_a_while() -> None:
    worker = Worker(10 << 20)
    watch = worker.watch(100 << 20)
    assert not watch.has_passed()
    worker.uss_bytes = 200 << 20
    assert [watch.has_passed() for _ in range(LOOK_AT_LEAST_EVERY)].index(True) > 0


@given(
    st.integers(MIN_BYTES, 50 << 20),
    st.lists(st.integers(0, 2000), min_size=1, max_size=200),
    st.integers(0, 20 << 20),
)
def test_a_watch_agrees_with_one_that_reads_after_every_request(
    limit: int, growths: list[int], start: int
) -> None:
    worker = Worker(start)
    watch = worker.watch(limit)
    for os_pages in growths:
        worker.grow(os_pages)
        passed = worker.uss_bytes > limit
        assert watch.has_passed() == passed
        if passed:
            break


def test_a_worker_is_asked_to_end_once_only() -> None:
    watch = Worker(20 << 20).watch(10 << 20)
    assert watch.has_passed()
    assert not watch.has_passed()


def test_the_message_names_both_figures() -> None:
    worker = Worker(12_000_000)
    watch = worker.watch(10_000_000)
    assert watch.has_passed()
    assert "12.0 MB passes this worker's limit of 10.0 MB" in str(watch)


def test_this_process_can_be_read() -> None:
    before = own_private_bytes()
    with mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        held[:] = b"x" * len(held)  # a fresh mapping: nothing that was freed is used again
        assert own_private_bytes() - before >= len(held) * 0.9
    assert read_faults() > 0
    assert most_bytes_per_fault() >= PAGE
