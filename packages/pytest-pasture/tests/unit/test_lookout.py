"""The look-out for what a module asks or makes once, where each worker of xdist does."""

import logging
import os
import pickle
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_pasture.lookout import WORKER, LookOut, WorkerInput

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


def test_a_question_for_the_pid_is_found_if_code_of_the_project_asks_for_it(
    lookout: LookOut, tmp_path: Path
) -> None:
    logging.getLogger(__name__).makeRecord("one", 1, __file__, 1, "asks", (), None)
    installed = tmp_path / "site-packages" / "one.py"
    exec(compile("import os; ME = os.getpid()", str(installed), "exec"), {})
    assert kinds(lookout) == []

    class Holds:
        pid: Any = os.getpid

    assert Holds().pid() == os.getpid()
    assert kinds(lookout) == ["process-id"] * 2
    assert Path(__file__).name in lookout.findings[0].what


def test_a_name_for_the_question_outlives_the_look_out() -> None:
    lookout = LookOut()
    lookout.start()
    kept = os.getpid
    lookout.stop()
    assert os.getpid is not kept and kept() == os.getpid()
    assert pickle.loads(pickle.dumps(kept)) is os.getpid
    assert kinds(lookout) == []


def test_temporary_files_are_found_with_their_places_while_they_are_there(
    lookout: LookOut,
) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file:
        assert [folder in lookout.findings[0].what, file.name in lookout.findings[1].what]
    with tempfile.TemporaryFile():
        assert kinds(lookout) == []
    assert all(Path(__file__).name in finding.what for finding in lookout.noted)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def test_a_port_is_found_if_it_is_known_or_open(lookout: LookOut) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        assert kinds(lookout) == ["port"]
        assert Path(__file__).name in lookout.findings[0].what
    assert kinds(lookout) == []  # as urllib3 does when it is imported, to see whether it can
    port = free_port()
    assert [str(port) in one.what for one in lookout.findings] == [True]
    with socket.socket(socket.AF_INET6) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("::1", port))
    assert kinds(lookout) == ["port", "port"]


def test_all_is_put_back() -> None:
    def now() -> tuple[object, ...]:
        sockets = vars(socket.socket)
        found = sockets.get("bind"), sockets.get("getsockname")
        return (type(os.environ), os.getpid, tempfile.mkdtemp, *found)

    before = now()
    lookout = LookOut()
    lookout.start()
    assert all(one != other for one, other in zip(now(), before, strict=True))
    lookout.stop()
    lookout.stop()
    assert now() == before
    os.environ.get(WORKER)
    assert lookout.findings == []


def test_only_what_was_read_of_a_workers_input_must_be_alike() -> None:
    seen = WorkerInput({"workerid": "gw0", "seed": 7, "database": "a"})
    other = {"workerid": "gw1", "seed": 7, "database": "b"}
    assert seen["seed"] == seen.get("seed")
    assert seen.differs(other) is None
    assert seen.get("database") == "a"
    assert seen.differs(other) == "database"
