"""What fits into the memory of control groups, and a look that must never fail."""

from pathlib import Path

import pytest

from pasture.proc.cgroup import Room
from pasture.sealing import room

MB = 1_000_000


def test_a_step_is_refused_where_its_peak_does_not_fit() -> None:
    fit = room.Fit(Room(5 * MB, Path("/group")), 200 * MB)
    assert "leaves 5.0 MB" in str(fit.refusal("immortalize"))
    assert fit.refusal("plug-malloc") is None and fit.refusal("freeze") is None
    assert room.Fit(None, 200 * MB).refusal("immortalize") is None


def test_lazy_imports_need_room_however_small_the_process_is() -> None:
    assert room.Fit(Room(30 * MB, Path("/group")), MB).refusal("resolve-imports") is not None
    assert room.Fit(Room(40 * MB, Path("/group")), MB).refusal("resolve-imports") is None


@pytest.mark.parametrize("error", [MemoryError, OSError, ValueError])
def test_a_look_that_fails_refuses_nothing(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(room, "read_room", fail)
    assert room.look() == room.Fit(None, 0)
