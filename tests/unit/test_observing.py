"""One finder, one scope of audit events, and the walk to the code that asks."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pasture.observing import Audit, Finder, asker, asker_besides

pytestmark = pytest.mark.once


@pytest.fixture
def heard() -> Iterator[tuple[Audit, list[str]]]:
    events: list[str] = []
    audit = Audit(lambda event, arguments: events.append(event))
    yield audit, events
    audit.drop()


def test_a_finder_notes_names_and_finds_nothing() -> None:
    names: list[str] = []
    finder, before = Finder(names.append), list(sys.meta_path)
    finder.install()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module")
    finder.remove()
    finder.remove()
    assert (names, sys.meta_path) == (["no_such_module"], before)


def test_events_are_heard_between_start_and_stop_alone(heard: tuple[Audit, list[str]]) -> None:
    audit, events = heard
    for begin, end in ((audit.start, audit.stop), (audit.start, audit.drop)):
        sys.audit("pasture.before")
        begin()
        sys.audit("pasture.heard")
        end()
        sys.audit("pasture.after")
    assert [one for one in events if one.startswith("pasture.")] == ["pasture.heard"] * 2


def test_a_hook_that_refuses_others_is_said(heard: tuple[Audit, list[str]]) -> None:
    refusing = True

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if refusing and event == "sys.addaudithook":
            raise RuntimeError("no more hooks")

    sys.addaudithook(refuse)
    audit, events = heard
    assert audit.start_or_refuse() is False
    refusing = False
    assert audit.start_or_refuse() is True
    sys.audit("pasture.heard")
    assert "pasture.heard" in events


def test_the_code_that_asks_is_the_nearest_that_passes_nothing_on() -> None:
    def pass_on() -> Any:
        return asker(lambda frame: frame.f_code.co_name == "pass_on")

    assert pass_on().f_code.co_name == sys._getframe().f_code.co_name
    assert asker(lambda frame: True) is None
    assert asker_besides(()) == __name__
    assert asker_besides((__name__,)) != __name__
    assert Path(pass_on().f_code.co_filename) == Path(__file__)
