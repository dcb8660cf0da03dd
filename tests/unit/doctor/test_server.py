"""The state of a server, by its seal and by what its process shows."""

from dataclasses import replace

import pytest

from pasture.proc import tree
from pasture.reasons import Reason
from pasture.scoreboard.layout import Entry
from pasture.sealing.seen import SealSeen
from pasture_tools.doctor.server import KINDS, Process, State, judge, parent_of_workers

PLAIN = Process({}, has_workers=True, has_extension=False)
ASKED = replace(PLAIN, environ={"PASTURE": "seal"}, program="/usr/bin/python3.13")
LOADED = replace(PLAIN, has_extension=True)
SEALED = SealSeen(True, "seal", 1)
HELD = SealSeen(False, "seal", 0, reason="a thread runs", why=Reason.PLAIN)
MISSING = replace(HELD, why=Reason.BUILD, reason="build it")


@pytest.mark.parametrize(
    "seal, server, kind, why",
    [
        (SEALED, LOADED, "sealed", ""),
        (HELD, LOADED, "plain", "a thread runs"),
        (None, PLAIN, "plain", "nothing asks for pasture"),
        (MISSING, LOADED, "without effect", "build it"),
        (None, ASKED, "without effect", "/usr/bin/python3.13 has not loaded pasture"),
        (None, LOADED, "without effect", "nothing was sealed before the fork"),
        (None, replace(PLAIN, asking=77), "without effect", "process 77 has PASTURE"),
        (None, replace(ASKED, has_workers=False), "loading", ""),
        (None, replace(LOADED, has_workers=False), "loading", ""),
        (None, replace(PLAIN, is_command=True, has_workers=False), "loading", ""),
        (None, replace(LOADED, environ={"PASTURE": "off"}), "off", "PASTURE=off is set"),
        (None, replace(LOADED, environ={"PASTURE_POLICY": "no"}), "off", "use PASTURE=off"),
    ],
)
def test_the_state_has_one_word_and_a_reason(
    seal: SealSeen | None, server: Process, kind: str, why: str
) -> None:
    found = judge(seal, server)
    assert found.kind == kind
    assert kind in KINDS
    assert why in found.why and bool(why) == bool(found.why)
    assert str(found).startswith(kind)


def test_a_reason_is_said_behind_the_word() -> None:
    assert str(State("plain", "a thread runs")) == "plain, because a thread runs"
    assert str(State("sealed")) == "sealed"


def test_the_latest_mold_that_has_workers_forks_what_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tree, "children", lambda pid: (11, 12, 13, 21))
    entries = {
        11: Entry(11, 0, "mold"),
        12: Entry(12, 1, "mold"),
        13: Entry(13, 2, "mold"),
        21: Entry(21, 1, "worker"),
        99: Entry(99, 3, "mold"),  # no child of the server: a worker can write any pid
    }
    assert parent_of_workers(10, entries) == 12
