"""When a worker is replaced for its private memory."""

import mmap
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasture.errors import UsageError
from pasture.proc.smaps import own_private_bytes
from pasture.serving.recycle import (
    LOOK_AT_LEAST_EVERY,
    MIN_BYTES,
    Usage,
    UssWatch,
    parse_limit,
    read_resident_bytes,
    read_usage,
)

PAGE = 4096
HUGE_PAGE = 2 << 20
TIMEOUT_S = 300
SPREAD_BYTES = 1 << 20  # what threads bring between two readings


class Worker:
    """A worker whose memory grows by page faults, and that counts how often it is read."""

    def __init__(self, uss: int = 0) -> None:
        self.uss_bytes = uss
        self.resident_bytes = uss + (50 << 20)  # with what it shares
        self.faults = 1000
        self.peak_bytes = self.resident_bytes
        self.reads = self.resident_reads = 0

    def write_shared(self, os_pages: int) -> None:
        self.faults += os_pages
        self.uss_bytes += os_pages * PAGE

    def grow(self, pages: int, page_bytes: int = PAGE) -> None:
        self.faults += pages
        self.uss_bytes += pages * page_bytes
        self.resident_bytes += pages * page_bytes
        self.peak_bytes = max(self.peak_bytes, self.resident_bytes)

    def give_back(self, byte_count: int) -> None:
        self.uss_bytes -= byte_count
        self.resident_bytes -= byte_count

    def usage(self) -> Usage:
        return Usage(self.faults, self.peak_bytes)

    def resident(self) -> int:
        self.resident_reads += 1
        return self.resident_bytes

    def uss(self) -> int:
        self.reads += 1
        return self.uss_bytes

    def watch(self, limit: int, draw: float = 0.0) -> UssWatch:
        return UssWatch(
            limit,
            uss=self.uss,
            usage=self.usage,
            resident=self.resident,
            draw=lambda: draw,
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200M", 200_000_000),
        ("1.5G", 1_500_000_000),
        ("2048k", 2_048_000),
        (" 64MiB ", 64 << 20),
        ("64mi", 64 << 20),
        ("1048576", 1 << 20),
        ("100mb", 100_000_000),
    ],
)
def test_a_limit_is_read_as_users_write_it(text: str, expected: int) -> None:
    assert parse_limit(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "much", "200T", "12K", "-5M", "inf", "nan"],
)
def test_a_limit_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_limit(text)


def test_the_jitter_only_lowers_a_limit() -> None:
    limits = [Worker().watch(100 << 20, draw).limit_bytes for draw in (0.0, 0.5, 1.0)]
    assert limits == [100 << 20, 95 << 20, 90 << 20]


def test_memory_that_became_private_without_a_fault_is_seen_after_a_while() -> None:
    worker = Worker(10 << 20)
    watch = worker.watch(100 << 20)
    assert not watch.has_passed()
    worker.uss_bytes = 200 << 20
    assert [watch.has_passed() for _ in range(LOOK_AT_LEAST_EVERY)].index(True) > 0


def test_memory_that_came_in_huge_pages_is_seen_at_once() -> None:
    worker = Worker(10 << 20)
    watch = worker.watch(100 << 20)
    assert not watch.has_passed()
    for _ in range(9):
        worker.grow(5, HUGE_PAGE)
        assert not watch.has_passed()
    worker.grow(1, HUGE_PAGE)
    assert watch.has_passed()


def test_copies_count_where_as_much_shared_memory_was_given_back() -> None:
    worker = Worker(10 << 20)
    watch = worker.watch(20 << 20)
    assert not watch.has_passed()
    worker.resident_bytes -= 30 << 20
    worker.write_shared((10 << 20) // PAGE + 1)
    assert watch.has_passed()


def test_memory_that_is_given_back_and_taken_again_costs_few_readings() -> None:
    worker = Worker(10 << 20)
    watch = worker.watch(100 << 20)
    assert not watch.has_passed()
    for _ in range(20):
        worker.grow(30, HUGE_PAGE)
        assert not watch.has_passed()
        worker.give_back(30 * HUGE_PAGE)
    assert (worker.reads, worker.resident_reads) == (1, 1)


def test_a_peak_that_is_over_is_no_reason_to_read_the_private_memory() -> None:
    worker = Worker(10 << 20)
    worker.grow(300, HUGE_PAGE)
    worker.give_back(300 * HUGE_PAGE)
    watch = worker.watch(100 << 20)
    for _ in range(20):
        worker.grow(10)
        assert not watch.has_passed()
    assert worker.reads == 1


@given(
    st.integers(MIN_BYTES, 50 << 20),
    st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 2000), st.integers(0, 5)),
        min_size=1,
        max_size=200,
    ),
    st.integers(0, 20 << 20),
)
def test_a_watch_agrees_with_one_that_reads_after_every_request(
    limit: int, growths: list[tuple[int, int, int]], start: int
) -> None:
    worker = Worker(start)
    watch = worker.watch(limit)
    for written, new, huge in growths:
        worker.write_shared(written)
        worker.grow(new)
        worker.grow(huge, HUGE_PAGE)
        passed = worker.uss_bytes > limit
        assert watch.has_passed() == passed
        if passed:
            break


def test_a_worker_is_asked_to_end_once_only() -> None:
    watch = Worker(20 << 20).watch(10 << 20)
    assert watch.has_passed()
    assert not watch.has_passed()


def test_a_thread_that_is_kept_from_running_in_its_look_hides_nothing_from_the_others() -> None:
    worker = Worker(10 << 20)
    looks, goes_on = threading.Event(), threading.Event()
    first = threading.Thread(target=lambda: watch.has_passed())

    def uss() -> int:
        found = worker.uss_bytes
        if threading.current_thread() is first:
            looks.set()
            assert goes_on.wait(TIMEOUT_S)
        return found

    watch = UssWatch(
        20 << 20, uss=uss, usage=worker.usage, resident=worker.resident, draw=lambda: 0.0
    )
    first.start()
    try:
        assert looks.wait(TIMEOUT_S)
        worker.grow(5000)
        assert watch.has_passed()
    finally:
        goes_on.set()
        first.join()
    assert watch.uss_bytes == worker.uss_bytes
    assert not watch.has_passed()


def test_the_message_names_both_figures() -> None:
    worker = Worker(12_000_000)
    watch = worker.watch(10_000_000)
    assert watch.has_passed()
    assert "12.0 MB passes this worker's limit of 10.0 MB" in str(watch)


def test_this_process_can_be_read() -> None:
    before, resident_before = own_private_bytes(), read_resident_bytes()
    with mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        held[:] = b"x" * len(held)  # a fresh mapping: nothing that was freed is used again
        assert own_private_bytes() - before >= len(held) * 0.9
        assert read_resident_bytes() - resident_before >= len(held) * 0.9
        assert read_usage().peak_bytes >= read_resident_bytes() - SPREAD_BYTES
    assert read_usage().faults > 0
