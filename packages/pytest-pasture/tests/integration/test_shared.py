"""Fixtures that are set up once, before the workers are forked."""

from pathlib import Path
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
    assert "ended 1 kept process" in project.run("--keep-stop").output
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


SERVICE = """
import os, pytest, socket, subprocess, sys, tempfile
from pytest_pasture import pasture_service

@pytest.fixture(scope="session")
@pasture_service
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SERVER, str(port)]
    service = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE)
    service.stdout.readline()
    with open("log", "a") as log:
        log.write("up\\n")
    yield service.pid, port
    service.kill()
    service.wait()
    with open("log", "a") as log:
        log.write("down\\n")

SERVER = '''
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    print("ready", flush=True)
    while True:
        server.accept()[0].sendall(b"served")
'''
"""
OF_SERVICE = """
import pytest, socket
@pytest.mark.parametrize("n", range(6))
def test_n(n, data, tmp_path):
    pid, port = data
    with open(f"service-{pid}", "w"):
        pass
    with socket.create_connection(("127.0.0.1", port)) as connection:
        assert connection.recv(6) == b"served"
"""


@pytest.fixture
def served(suite: Any) -> Any:
    suite.write("conftest.py", SERVICE)
    suite.write("test_one.py", OF_SERVICE)
    return suite


def services(suite: Any) -> list[str]:
    return [path.name.partition("-")[2] for path in suite.folder.glob("service-*")]


def runs(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("option", ["-v", "--fork-each", "--dist=loadfile"])
def test_a_service_is_started_once_for_all_workers(served: Any, option: str) -> None:
    assert served.forked(option).counts == {"passed": 6}
    assert log(served) == ["up", "down"]
    (pid,) = services(served)
    assert not runs(pid)
    assert served.run("--no-pasture").counts == {"passed": 6}
    assert len(services(served)) == 3  # one for each plain worker


def test_a_service_serves_all_runs_that_are_kept(served: Any) -> None:
    text = SERVICE.replace("data(tmp_path_factory)", "data()")
    text = text.replace('tmp_path_factory.mktemp("service")', "tempfile.mkdtemp()")
    served.write("conftest.py", text)
    assert served.collected()[0].counts == {"passed": 6}
    assert served.kept().counts == {"passed": 6}
    (pid,) = services(served)
    assert runs(pid)
    assert "ended 1 kept process" in served.run("--keep-stop").output
    while log(served) == ["up"]:
        pass
    assert log(served) == ["up", "down"] and not runs(pid)


def test_a_service_ends_before_plain_workers_start_theirs(served: Any) -> None:
    """It may have a port that they want."""
    served.write("test_two.py", "import subprocess\nP = subprocess.Popen(['sleep', '9'])\n")
    run = served.run("--pasture")
    assert "(process)" in run.why_plain and "sleep" in run.why_plain
    assert run.counts == {"passed": 6}
    assert log(served)[:2] == ["up", "down"] and log(served).count("down") == 3


def test_without_the_mark_a_program_of_a_shared_fixture_is_found(served: Any) -> None:
    text = SERVICE.replace("pasture_service", "pasture_shared")
    text = text.replace("data(tmp_path_factory)", "data()")
    served.write("conftest.py", text.replace('tmp_path_factory.mktemp("service")', "None"))
    run = served.run("--pasture")
    assert "(port)" in run.why_plain and run.counts == {"passed": 6}
