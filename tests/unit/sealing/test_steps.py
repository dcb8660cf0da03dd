"""The table of the heap's steps against the policies that name them."""

import gc

import pytest

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native
from pasture.sealing import steps
from pasture.sealing.policy import POLICIES

pytestmark = pytest.mark.interpreter


def test_each_step_is_taken_by_a_policy() -> None:
    assert set(steps.HEAP_STEPS) == {step for policy in POLICIES.values() for step in policy.heap}


@pytest.mark.parametrize("name", POLICIES)
def test_what_a_freeze_is_to_keep_is_made_ready_before_it(name: str) -> None:
    """Frozen garbage is never freed, and holes are plugged when nothing is freed any more."""
    heap = POLICIES[name].heap
    if "freeze" not in heap:
        return
    after = heap[heap.index("freeze") :]
    assert not {"collect", "immortalize", "gather-code", "precompute-types"} & set(after)
    assert not {"plug-malloc", "plug-pymalloc"} & set(heap) - set(after)


def test_a_step_after_a_failure_does_without_the_extension_and_allocates_nothing_for_good() -> None:
    after = [step for step in steps.HEAP_STEPS.values() if step.after_failure]
    assert after and not any(step.is_native or step.peak for step in after)


def test_what_a_step_needs_of_the_extension_is_a_part_that_it_has() -> None:
    known = {part for row in native().private_fields() for part in row[3]}
    rows = steps.HEAP_STEPS.values()
    assert {step.part for step in rows if step.part} <= known
    assert all(step.is_native for step in rows if step.part)


@pytest.mark.parametrize("error", [UnsupportedInterpreter("x"), RuntimeError(), MemoryError()])
def test_where_no_collection_can_run_out_of_line_the_built_in_one_does(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Unable:
        def collect(self, frozen: bool) -> int:
            raise error

    monkeypatch.setattr(steps, "native", Unable)
    monkeypatch.setattr(gc, "collect", lambda: 7)
    assert steps.HEAP_STEPS["collect"].work() == {"unreachable": 7}
