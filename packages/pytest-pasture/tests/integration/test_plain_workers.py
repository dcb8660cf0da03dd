"""Where forked workers would not do, the run is plain xdist's, and one line says why."""

import json
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.once

TESTS = """
import os, pytest, time
@pytest.mark.parametrize("n", range(6))
def test_n(n, worker_id):
    time.sleep(0.05)
    assert os.environ["PYTEST_XDIST_WORKER"] == worker_id
"""
IN_MOLD = "'PYTEST_XDIST_TESTRUNUID' in os.environ and WORKER not in os.environ.keys()"


@pytest.mark.parametrize(
    ("conftest", "said"),
    [
        ("import os\nME = os.environ.get('PYTEST_XDIST_WORKER')", "conftest.py:2 asks for"),
        (
            "import os\nME = os.getpid()\ndef pytest_runtest_setup(): assert os.getpid() == ME",
            "conftest.py:2 asks for its process id",
        ),
        ("import tempfile\nD = tempfile.mkdtemp()", "conftest.py:2 makes"),
        ("import socket\nS = socket.socket()\nS.bind(('127.0.0.1', 0))", "conftest.py:3 binds"),
        ("import select\nE = select.epoll()", "an event loop or selector has an epoll open"),
        (
            "import threading, time\n"
            "threading.Thread(target=time.sleep, args=(20,), daemon=True).start()",
            "thread",
        ),
        (
            "import subprocess\nP = subprocess.Popen(['sleep', '5'])",
            "a program was started before the fork: sleep 5",
        ),
        (
            "def pytest_configure_node(node):\n    node.workerinput['own'] = node.gateway.id\n"
            "def pytest_configure(config):\n"
            "    if hasattr(config, 'workerinput'): config.workerinput['own']\n",
            "workerinput['own'] was read before the fork",
        ),
        (
            f"import os\nWORKER = 'PYTEST_XDIST_WORKER'\n"
            f"def pytest_collection_modifyitems():\n    if {IN_MOLD}: os._exit(3)",
            "the collecting process has ended",
        ),
        (
            f"import os\nWORKER = 'PYTEST_XDIST_WORKER'\n"
            f"def pytest_sessionstart():\n    if {IN_MOLD}: raise LookupError",
            "the session ended before its tests, with status 3",
        ),
    ],
)
def test_one_line_says_why(suite: Any, conftest: str, said: str) -> None:
    suite.write("conftest.py", conftest)
    suite.write("test_one.py", TESTS)
    # A second worker costs as much as all the rest, and where workers differ one must be there.
    run = suite.run("--pasture", "-n", "2" if "node" in conftest else "1")
    assert said in run.why_plain
    assert run.counts == {"passed": 6}
    assert run.code == 0


@pytest.mark.parametrize("allowed", ["", "worker-id"])
def test_what_cannot_go_away_ends_the_collection_unless_it_is_allowed(
    suite: Any, allowed: str
) -> None:
    suite.write("pytest.ini", f"[pytest]\npasture_allow = {allowed}\n")
    asks = "import os\nME = os.environ.get(WORKER)\n"
    suite.write("test_a.py", f"WORKER = 'PYTEST_XDIST_WORKER'\n{asks}{TESTS}")
    late = f"import os\nWORKER = 'PYTEST_XDIST_WORKER'\nif {IN_MOLD}: open('late', 'w').close()\n"
    suite.write("test_b.py", late + TESTS)
    run = suite.run("--pasture", "-n", "1")
    assert run.counts == {"passed": 12}
    assert ("test_a.py:3 asks for" in run.why_plain) == (not allowed)
    assert (suite.folder / "late").exists() == bool(allowed)


def test_a_generator_that_a_conftest_has_seeded_is_no_reason(suite: Any) -> None:
    pytest.importorskip("numpy")
    suite.write("conftest.py", "import numpy\nnumpy.random.seed(5)")
    suite.write("test_one.py", TESTS)
    assert suite.run("--pasture", "-n", "1").why_plain == ""


def test_a_finding_that_is_allowed_is_no_reason(suite: Any) -> None:
    suite.write("pytest.ini", "[pytest]\npasture = true\npasture_allow = temporary-file\n")
    suite.write(
        "test_one.py",
        "import tempfile, os\nFOLDER = tempfile.TemporaryDirectory()\n"
        "open('folder', 'w').write(FOLDER.name)\n"
        + TESTS
        + "    assert os.path.isdir(FOLDER.name)\n",
    )
    run = suite.forked("--pasture-report=report.json")
    assert run.counts == {"passed": 6}
    report = json.loads((suite.folder / "report.json").read_text())
    assert report["plain"] == []
    assert report["workers"].keys() <= {"gw0", "gw1"}
    assert all(one["private_bytes"] > 0 for one in report["workers"].values())
    folder = (suite.folder / "folder").read_text()
    assert not suite.folder.joinpath(folder).exists()


def test_another_interpreter_gets_plain_workers(suite: Any) -> None:
    suite.write("test_one.py", TESTS)
    run = suite.run("--pasture", "--dist=load", "--tx", f"2*popen//python={sys.executable}")
    assert "is not this interpreter" in run.why_plain
    assert run.counts == {"passed": 6}


def test_without_the_option_nothing_is_imported(suite: Any) -> None:
    suite.write(
        "test_one.py",
        "import sys\ndef test_modules():\n"
        "    own = {one for one in sys.modules if one.partition('.')[0] == 'pytest_pasture'}\n"
        "    assert own == {'pytest_pasture', 'pytest_pasture.plugin', 'pytest_pasture.shared'}\n"
        "    assert 'pasture' not in sys.modules\n",
    )
    assert suite.run("-n", "0").outcomes == {"test_one::test_modules": "passed"}
    assert suite.run("--no-pasture", "-n", "1").outcomes == {"test_one::test_modules": "passed"}


def test_without_the_option_nothing_is_changed(suite: Any) -> None:
    suite.write("test_one.py", TESTS + "    assert os.getppid() != 0\n")
    assert "pasture:" not in suite.run().output
    suite.write("pytest.ini", "[pytest]\npasture = true\n")
    assert "pasture:" not in suite.run("--no-pasture").output
    assert "pasture:" not in suite.run("-n", "0").output
