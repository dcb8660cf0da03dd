"""Shortages of the system: which errors pass, and when the next try is."""

import errno

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
