"""What `pasture doctor` says of interpreters whose children have to be finalized."""

import sys

import pytest

from pasture_tools.doctor.evidence import try_exit

pytestmark = pytest.mark.interpreter


def test_children_of_this_interpreter_need_not_be_finalized() -> None:
    assert try_exit() is None


def test_an_interpreter_that_finds_no_way_out_is_named_with_what_it_costs() -> None:
    why = try_exit("print('finalizes')")
    assert why is not None
    assert "children are finalized at their end" in why


def test_what_could_not_be_tried_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert try_exit("raise SystemExit(3)") is None
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert try_exit() is None
