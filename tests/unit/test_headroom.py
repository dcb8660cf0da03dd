"""What fits into the memory of control groups, and a look that must never fail."""

from pathlib import Path

import pytest

from pasture.proc.cgroup import Headroom
from pasture.sealing import headroom

MB = 1_000_000


def test_a_step_is_refused_where_its_peak_does_not_fit() -> None:
    budget = headroom.Budget(Headroom(5 * MB, Path("/group")), 200 * MB)
    assert "leaves 5.0 MB" in str(budget.refusal("immortalize"))
    assert budget.refusal("plug-malloc") is None and budget.refusal("freeze") is None
    assert headroom.Budget(None, 200 * MB).refusal("immortalize") is None


def test_lazy_imports_need_headroom_however_small_the_process_is() -> None:
    assert (
        headroom.Budget(Headroom(30 * MB, Path("/group")), MB).refusal("resolve-imports")
        is not None
    )
    assert headroom.Budget(Headroom(40 * MB, Path("/group")), MB).refusal("resolve-imports") is None


@pytest.mark.parametrize("error", [MemoryError, OSError, ValueError])
def test_a_look_that_fails_refuses_nothing(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(headroom, "read_headroom", fail)
    assert headroom.look() == headroom.Budget(None, 0)
