"""The process that is copied for an image: how it seals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from pasture.sealing import steps
from pasture.sealing.policy import POLICIES
from pasture_image.inside import stopped

COUNTS = {"objects": 0, "owners_left_out": 0, "blocks": 0, "bytes": 0, "allocator": "", "means": ""}


class Calls:
    """Stands for the extension, for `gc` and for `containers`, and notes what is called."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*_: object) -> Any:
            self.names.append(name)
            return {**COUNTS, "mortal_types": ()}

        return call


def test_an_image_is_sealed_by_the_steps_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls the extension itself: the table of the steps would be in each program."""
    by_table, by_image = Calls(), Calls()
    for module, calls in ((steps, by_table), (stopped, by_image)):
        monkeypatch.setattr(module, "gc", calls)
        monkeypatch.setattr(module, "containers", calls)
        monkeypatch.setattr(module, "native", lambda calls=calls: calls)
    monkeypatch.setattr(steps, "dead", SimpleNamespace(look=lambda: ({}, (), ())))
    monkeypatch.setattr(steps, "_holes", steps._Holes())
    for name in POLICIES["seal"].heap:
        steps.HEAP_STEPS[name].work()
    nothing = SimpleNamespace(arm=list, watch=list, note_frozen_files=list)
    settings = SimpleNamespace(remember_thresholds=list, paused=nullcontext)
    for attribute, stand_in in (("end", nothing), ("exit", nothing), ("gc_settings", settings)):
        monkeypatch.setattr(stopped, attribute, stand_in)
    stopped._seal()
    assert by_image.names == by_table.names
