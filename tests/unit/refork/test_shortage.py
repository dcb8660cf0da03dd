"""Shortages of the system: which errors pass, when the next try is, and Celery's pool meanwhile."""

import errno
import os
from types import SimpleNamespace
from typing import Any

import pytest

from pasture.refork.shortage import Backoff, is_shortage


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENOSPC])
def test_what_may_be_had_later_is_a_shortage(number: int) -> None:
    assert is_shortage(OSError(number, "x"))


@pytest.mark.parametrize("error", [PermissionError(errno.EPERM, "x"), OSError("x"), MemoryError()])
def test_what_stays_as_it_is_is_no_shortage(error: BaseException) -> None:
    assert not is_shortage(error)


def test_each_failure_in_a_row_doubles_the_wait_up_to_a_limit() -> None:
    backoff = Backoff(first_s=1, max_s=10)
    assert [backoff.failed(0) for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert backoff.failures == 6


def test_the_next_try_is_not_before_the_wait_is_over() -> None:
    backoff = Backoff(first_s=2)
    assert backoff.may_try(0)
    backoff.failed(100)
    assert not backoff.may_try(101.9)
    assert backoff.may_try(102)


def test_a_success_makes_the_next_wait_short_again() -> None:
    backoff = Backoff(first_s=1)
    backoff.failed(0)
    backoff.failed(1)
    backoff.succeeded()
    assert backoff.failures == 0
    assert backoff.failed(10) == 1


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A pool of one process that lacks another, which its `add` fails to bring."""
    billiard = pytest.importorskip("billiard.pool")
    from pasture.servers import celery as celery_pool

    old = SimpleNamespace(_popen=object(), pid=1)
    pool = SimpleNamespace(_pool=[old], _queues={"queues": None}, old=old, add=None)
    monkeypatch.setattr(billiard.Pool, "_repopulate_pool", lambda pool, codes: pool.add())
    monkeypatch.setattr(celery_pool, "Backoff", lambda: Backoff(first_s=0))
    celery_pool.survive_shortages()
    pool.repopulate = lambda: billiard.Pool._repopulate_pool(pool, ())
    return pool


def test_a_process_that_could_not_be_forked_leaves_its_place_and_its_queues(pool: Any) -> None:
    def add() -> None:
        new = SimpleNamespace(_popen=None, pid=None)
        pool._pool.append(new)
        pool._queues["queues"] = new
        raise BlockingIOError(errno.EAGAIN, "no process")

    pool.add = add
    pool.repopulate()
    assert pool._pool == [pool.old]
    assert pool._queues == {"queues": None}


def test_a_process_that_no_one_listens_to_is_killed_and_keeps_its_place_until_its_end(
    pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))

    def add() -> None:
        pool._pool.append(SimpleNamespace(_popen=object(), pid=4711))
        raise OSError(errno.EMFILE, "no descriptor")

    pool.add = add
    pool.repopulate()
    assert killed == [(4711, 9)]
    assert [worker.pid for worker in pool._pool] == [1, 4711]


def test_the_pipe_of_a_fork_that_failed_is_closed(pool: Any) -> None:
    ends: list[int] = []

    def _launch() -> None:  # the name that billiard's function has
        parent_r, child_w = os.pipe()
        ends.extend((parent_r, child_w))
        raise BlockingIOError(errno.EAGAIN, "no process")

    pool.add = _launch
    pool.repopulate()
    for end in ends:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


def test_another_error_of_the_pool_is_raised(pool: Any) -> None:
    def add() -> None:
        raise PermissionError(errno.EPERM, "never")

    pool.add = add
    with pytest.raises(PermissionError):
        pool.repopulate()
