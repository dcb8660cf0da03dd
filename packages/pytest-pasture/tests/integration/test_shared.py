"""Fixtures that are set up once, before the workers are forked."""

from typing import Any

import pytest

pytestmark = pytest.mark.once

CONFTEST = """
import os, pytest
from pytest_pasture import pasture_shared

@pytest.fixture(scope="session")
def pid():
    return os.getpid()

@pytest.fixture(scope="session")
@pasture_shared
def data(pid):
    with open("log", "a") as log:
        log.write("up\\n")
    yield pid
    assert os.getpid() == pid
    with open("log", "a") as log:
        log.write("down\\n")

@pytest.fixture
def own(data, tmp_path):
    return data
"""
TESTS = """
import os, pytest
@pytest.mark.parametrize("n", range(6))
def test_n(n, own, data, pid, worker_id):
    assert own == data == pid
    assert SHARED is (pid != os.getpid())
"""


@pytest.fixture
def project(suite: Any) -> Any:
    suite.write("conftest.py", CONFTEST)
    suite.write("test_one.py", TESTS.replace("SHARED", "True"))
    return suite


def log(suite: Any) -> list[str]:
    return (suite.folder / "log").read_text().split()


@pytest.mark.parametrize("option", ["-v", "--fork-each"])
def test_a_shared_fixture_is_set_up_and_torn_down_once(project: Any, option: str) -> None:
    assert project.forked(option).counts == {"passed": 6}
    assert log(project) == ["up", "down"]


def test_a_kept_one_serves_all_runs(project: Any) -> None:
    assert project.collected()[0].counts == {"passed": 6}
    assert project.kept("-k", "1").counts == {"passed": 1}
    assert log(project) == ["up"]
    assert "1 kept process ended" in project.run("--keep-stop").output
    while log(project) == ["up"]:
        pass
    assert log(project) == ["up", "down"]


def test_without_forked_workers_each_has_its_own(project: Any) -> None:
    project.write("test_one.py", TESTS.replace("SHARED", "False"))
    assert project.run().counts == {"passed": 6}
    assert log(project).count("up") == log(project).count("down") == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raise LookupError('no data')", "'data': LookupError: no data"),
        ("pytest.skip('no data')", "'data': Skipped: no data"),
        ("request.getfixturevalue('worker_id')", "it uses worker_id"),
    ],
)
def test_one_that_cannot_be_shared_is_each_workers_own(project: Any, line: str, said: str) -> None:
    text = CONFTEST.replace("def data(pid):", f"def data(pid, request):\n    {line}")
    project.write("conftest.py", text)
    project.write("test_one.py", TESTS.replace("SHARED", "False"))
    run = project.forked()
    assert said in run.line("pasture: nothing is shared: ")
    assert run.outcomes == project.run().outcomes


def test_a_thread_of_one_is_found(project: Any) -> None:
    thread = (
        "import threading, time\n    threading.Thread(target=time.sleep, args=(9,), daemon=True)"
    )
    text = CONFTEST.replace("def data(pid):", f"def data(pid):\n    {thread}.start()")
    project.write("conftest.py", text)
    project.write("test_one.py", TESTS.replace("SHARED", "False"))
    run = project.run("--pasture")
    assert "thread" in run.why_plain
    assert run.counts == {"passed": 6}
    assert log(project).count("up") == log(project).count("down")
