"""The program that runs a module of CPython's tests, on a small test package."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from running import TIMEOUT_S

pytestmark = pytest.mark.once

PROGRAM = Path(__file__).parents[2] / "matrix" / "cpython" / "module_program.py"

PACKAGE = {
    "__init__.py": "",
    "support/__init__.py": "SHORT_TIMEOUT = 1.0\n",
    "libregrtest/__init__.py": "",
    "libregrtest/setup.py": "def setup_process(): pass\n",
    "test_six.py": """
import os, signal, unittest
class Six(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.first_pid = os.getpid()
    def note(self):
        with open("pids", "a") as file:
            print(os.getpid() == self.first_pid, file=file)
    test_1 = test_2 = test_3 = test_4 = test_5 = note
    def test_6(self):
        self.note()
        if os.path.exists("crash"):
            os.kill(os.getpid(), signal.SIGSEGV)
""",
    "test_absent.py": "import unittest\nraise unittest.SkipTest('not here')\n",
    "test_odd.py": """
import multiprocessing, signal, unittest
class T(unittest.TestCase):
    def test_its_id_is_a_number(self):
        self.id = 5
    def test_spawns_a_process(self):
        process = multiprocessing.get_context("spawn").Process(target=print)
        process.start()
        process.join()
        self.assertEqual(process.exitcode, 0)
    def test_can_be_interrupted(self):
        with self.assertRaises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
""",
    "test_threads.py": """
import threading, unittest
class T(unittest.TestCase):
    def test_leaves_a_thread(self):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    def test_two(self):
        pass
""",
    "test_subtests.py": """
import unittest
class T(unittest.TestCase):
    def test_some(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertNotEqual(i, 1, "wrong")
""",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in PACKAGE.items():
        file = tmp_path / "test" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def run(package: Path, module: str, *words: str) -> tuple[int, list[tuple[str, str]]]:
    results = package / "results"
    command = [sys.executable, str(PROGRAM), str(results), module, "100", "--site", str(package)]
    done = subprocess.run([*command, *words], cwd=package, capture_output=True, timeout=TIMEOUT_S)
    lines = [json.loads(text) for text in results.read_text().splitlines()]
    return done.returncode, [(each["test"].rpartition(".")[2], each["outcome"]) for each in lines]


def outcomes(lines: list[tuple[str, str]], outcome: str) -> list[str]:
    return [test for test, each in lines if each == outcome]


ALL_SIX = [f"test_{n}" for n in range(1, 7)]


@pytest.mark.parametrize("seal", [(), ("--sealed",)])
def test_all_tests_run_in_a_child_that_ends_well(package, seal):
    code, lines = run(package, "test_six", *seal)
    assert code == 0
    assert outcomes(lines, "passed") == ALL_SIX
    assert ("", "finished") in lines
    assert (("", "sealed") in lines) == bool(seal)


def test_a_seal_in_the_middle_runs_each_test_once_in_parent_or_child(package):
    code, lines = run(package, "test_six", "--sealed", "--fork-after", "0.5")
    assert code == 0
    assert outcomes(lines, "passed") == ALL_SIX
    assert lines.index(("", "sealed")) == lines.index(("test_3", "ended")) + 1
    assert (package / "pids").read_text().split() == ["True"] * 3 + ["False"] * 3
    assert lines.count(("", "finished")) == 1


def test_a_crash_after_the_seal_arrives_as_the_exit_code(package):
    (package / "crash").touch()
    code, lines = run(package, "test_six", "--sealed", "--fork-after", "0.5")
    assert code == 128 + 11
    assert ("test_6", "started") in lines
    assert ("test_6", "ended") not in lines
    assert ("", "finished") not in lines


def test_a_module_that_does_not_want_to_run_is_skipped(package):
    code, lines = run(package, "test_absent")
    assert (code, lines) == (0, [("", "skipped")])


def test_a_failed_subtest_is_a_failure_of_its_test(package):
    _, lines = run(package, "test_subtests")
    assert ("test_some", "failed") in lines
    assert ("test_some", "passed") not in lines


def test_modules_may_spawn_processes_be_interrupted_and_overwrite_what_unittest_reads(package):
    interruptible = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code, lines = run(package, "test_odd")
    finally:
        signal.signal(signal.SIGINT, interruptible)
    assert code == 0
    assert outcomes(lines, "passed") == [
        "test_can_be_interrupted",
        "test_its_id_is_a_number",
        "test_spawns_a_process",
    ]


def test_a_module_whose_threads_never_end_is_not_sealed_in_the_middle(package):
    code, lines = run(package, "test_threads", "--sealed", "--fork-after", "0.5")
    assert code == 0
    assert lines[-1] == ("", "not sealed")
    assert outcomes(lines, "passed") == ["test_leaves_a_thread", "test_two"]
