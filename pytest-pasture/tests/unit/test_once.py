"""The look-out for what a module asks or makes once, where each worker of xdist does."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pasture.once import WORKER, LookOut, WorkerInput

pytestmark = pytest.mark.once


@pytest.fixture
def lookout(monkeypatch: pytest.MonkeyPatch) -> Iterator[LookOut]:
    monkeypatch.delenv(WORKER, raising=False)
    lookout = LookOut()
    lookout.start()
    yield lookout
    lookout.stop()


def kinds(lookout: LookOut) -> list[str]:
    return [finding.kind for finding in lookout.findings]


def test_a_question_for_the_worker_is_found_however_it_is_asked(lookout: LookOut) -> None:
    assert os.environ.get(WORKER) is os.getenv(WORKER) is None
    assert WORKER not in os.environ
    assert kinds(lookout) == ["worker-id"] * 3
    assert Path(__file__).name in lookout.findings[0].what


def test_a_copy_of_the_environment_asks_for_no_worker(lookout: LookOut) -> None:
    assert WORKER not in dict(os.environ)
    assert os.environ.copy() == dict(os.environ.items())
    assert kinds(lookout) == []


def test_temporary_files_and_ports_are_found_with_their_places(lookout: LookOut) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file:
        assert [folder in lookout.findings[0].what, file.name in lookout.findings[1].what]
    with tempfile.TemporaryFile(), socket.socket() as one:
        one.bind(("127.0.0.1", 0))
    assert kinds(lookout) == ["port"]  # the others are gone
    assert all(Path(__file__).name in finding.what for finding in lookout.noted)


def test_all_is_put_back() -> None:
    before = type(os.environ), tempfile.mkdtemp, socket.socket.bind
    lookout = LookOut()
    lookout.start()
    assert before != (type(os.environ), tempfile.mkdtemp, socket.socket.bind)
    lookout.stop()
    lookout.stop()
    assert before == (type(os.environ), tempfile.mkdtemp, socket.socket.bind)
    os.environ.get(WORKER)
    assert lookout.findings == []


def test_only_what_was_read_of_a_workers_input_must_be_alike() -> None:
    seen = WorkerInput({"workerid": "gw0", "seed": 7, "database": "a"})
    other = {"workerid": "gw1", "seed": 7, "database": "b"}
    assert seen["seed"] == seen.get("seed")
    assert seen.differs(other) is None
    assert seen.get("database") == "a"
    assert seen.differs(other) == "database"
