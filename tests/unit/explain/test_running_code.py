"""Counters of running code, found by its instructions."""

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture.explain import code_objects


def test_counters_of_running_code_are_found_by_its_opcodes() -> None:
    code = compile("a % b\na % b\na % b\n", "", "exec")
    before = code.co_code
    parts = code_objects.parts(before)
    counters = np.flatnonzero(parts == code_objects.COUNTER)
    assert len(counters) >= 3
    after = bytearray(before)
    after[2 * counters[0]] ^= 0xFF
    assert code_objects.only_counters(before, bytes(after), 0).all()
    after[0] ^= 1  # an opcode
    changed = code_objects.only_counters(before, bytes(after), 0)
    assert not changed[0] and changed[1:].all()
