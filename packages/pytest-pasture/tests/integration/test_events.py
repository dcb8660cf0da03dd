"""What workers report reaches the controller's plug-ins as it does under xdist."""

import json
import re
from typing import Any

import pytest

pytestmark = pytest.mark.once

CONFTEST = """
import json, os, pytest
SEEN = []
OF_A_RUN = ("node", "worker_id", "testrun_uid", "duration", "start", "stop")

def pytest_runtest_logstart(nodeid, location):
    SEEN.append(("start", nodeid, location))

def pytest_runtest_logfinish(nodeid, location):
    SEEN.append(("finish", nodeid, location))

def pytest_runtest_logreport(report):
    known = {key: repr(value) for key, value in vars(report).items() if key not in OF_A_RUN}
    known["has"] = [hasattr(report, name) for name in OF_A_RUN]
    known["type"] = type(report).__name__
    assert report.stop - report.start < 60 and report.duration >= 0
    SEEN.append(("report", known))

def pytest_xdist_node_collection_finished(node, ids):
    SEEN.append(("ids", ids))

def pytest_terminal_summary(terminalreporter, config):
    stats = {key: sorted(one.nodeid for one in terminalreporter.stats.get(key, ())) for key in KEYS}
    name = os.environ.get("PYTEST_XDIST_WORKER", "controller")
    with open(f"{name}.json", "w") as file:
        json.dump([sorted(map(repr, SEEN)), stats], file)

KEYS = ("", "passed", "failed", "skipped", "xfailed")
"""
TESTS = """
import pytest, warnings
@pytest.mark.parametrize("n", range(20))
def test_n(n): ...
@pytest.mark.xfail
def test_expected(): assert 0
def test_skipped(): pytest.skip("no")
def test_printed(): print("text")
def test_warned(): warnings.warn("text")
def test_property(record_property): record_property("key", [1, b"2"])
def test_keyword(request): request.node.keywords["added"] = 1
def test_failed(): assert 0
"""
SERIALIZING = """
def pytest_report_to_serializable(report):
    report.seen_by = "a plug-in"

def pytest_report_from_serializable(data):
    data["added"] = "another"
"""
SUBTESTS = """
import unittest
class TestSub(unittest.TestCase):
    def test_sub(self):
        for n in range(3):
            with self.subTest(n=n): self.assertNotEqual(n, 1)
"""
ENDED_AT_ONCE = """
import os, pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session):
    try:
        return (yield)
    finally:
        if not hasattr(session.config, "workerinput"):
            os._exit(3)
"""


def seen(suite: Any, option: str) -> tuple[list[Any], Any]:
    run = suite.run(option)
    assert run.counts == {"passed": 24, "skipped": 2, "failure": 1}
    documents = [
        json.loads((suite.folder / f"{name}.json").read_text())
        for name in ("gw0", "gw1", "controller")
    ]
    of_workers = {}
    for _, stats in documents[:2]:
        for key, names in stats.items():
            of_workers[key] = sorted([*of_workers.get(key, []), *names])
    return documents[2], of_workers


@pytest.mark.parametrize("more", ["", SERIALIZING])
def test_plug_ins_see_what_they_see_under_xdist(suite: Any, more: str) -> None:
    suite.write("conftest.py", CONFTEST + more)
    suite.write("test_one.py", TESTS)
    assert seen(suite, "--pasture") == seen(suite, "--no-pasture")


@pytest.mark.parametrize("more", ["-v", "-q"])
def test_a_test_captures_what_the_reporter_writes_of_its_subtests(suite: Any, more: str) -> None:
    suite.write("conftest.py", CONFTEST)
    suite.write("test_one.py", SUBTESTS)
    found = []
    for option in ("--pasture", "--no-pasture"):
        suite.run(option, more)
        found.append(json.loads((suite.folder / "controller.json").read_text()))
    assert found[0] == found[1]


def test_a_worker_that_dies_has_lost_no_report(suite: Any) -> None:
    suite.write("conftest.py", "")
    suite.write(
        "test_one.py",
        "import os, pytest\n@pytest.mark.parametrize('n', range(50))\ndef test_n(n):\n"
        "    if n % 10 == 7: os.kill(os.getpid(), 9)\n",
    )
    for option in ("--pasture", "--no-pasture"):
        run = suite.run(option)
        assert "5 failed, 45 passed" in run.output and not run.why_plain
        crashed = [f"crashed while running 'test_one.py::test_n[{n}7]'" for n in range(1, 5)]
        assert all(one in run.output for one in crashed)


def test_what_tests_have_shown_is_written_when_the_last_one_has_ended(suite: Any) -> None:
    suite.write("conftest.py", ENDED_AT_ONCE)
    suite.write(
        "test_one.py",
        "import pytest\n@pytest.mark.parametrize('n', range(50))\ndef test_n(n): assert n != 20\n",
    )
    for option in ("--pasture", "--no-pasture"):
        run = suite.run(option)
        shown = "".join(re.findall("^[.F]+", run.output, re.MULTILINE))
        assert run.code == 3
        assert sorted(shown) == ["."] * 49 + ["F"]
