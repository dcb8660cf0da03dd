"""What fits into the memory of control groups, and a look that must never fail."""

from pathlib import Path

import pytest

from pasture.proc.cgroup import Headroom
from pasture.sealing import headroom
from pasture.sealing.headroom import Budget
from pasture.sealing.steps import HEAP_STEPS

MB = 1_000_000


GROUP = Path("/group")


def test_a_step_is_refused_where_its_peak_does_not_fit() -> None:
    budget = Budget(Headroom(5 * MB, GROUP), 200 * MB)
    assert "leaves 5.0 MB" in str(budget.refusal(HEAP_STEPS["immortalize"].peak))
    for fits in ("plug-malloc", "freeze"):
        assert budget.refusal(HEAP_STEPS[fits].peak) is None
    assert Budget(None, 200 * MB).refusal(HEAP_STEPS["immortalize"].peak) is None


def test_lazy_imports_need_headroom_however_small_the_process_is() -> None:
    assert Budget(Headroom(30 * MB, GROUP), MB).refusal(headroom.RESOLVE_IMPORTS) is not None
    assert Budget(Headroom(40 * MB, GROUP), MB).refusal(headroom.RESOLVE_IMPORTS) is None


@pytest.mark.parametrize("error", [MemoryError, OSError, ValueError])
def test_a_look_that_fails_refuses_nothing(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(headroom, "read_headroom", fail)
    assert headroom.look() == Budget(None, 0)
