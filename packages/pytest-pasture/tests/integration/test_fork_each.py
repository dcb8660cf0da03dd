"""A process for each test: what one does to its process, no other one sees."""

from typing import Any

import pytest

pytestmark = pytest.mark.once

LEAKS = """
import os, signal, sys, pytest, warnings
SEEN = []

@pytest.fixture(scope="session")
def number():
    SEEN.append("set up")
    yield len(SEEN)
    assert SEEN.count("test") == 1

@pytest.mark.parametrize("n", range(30))
def test_n(n, number, tmp_path):
    assert SEEN == ["set up"] and number == 1
    assert "LEAKED" not in os.environ and not hasattr(os, "leaked")
    assert os.getcwd() != "/" and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    SEEN.append("test")
    os.environ["LEAKED"] = os.leaked = "so"
    os.chdir("/")
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    warnings.warn(f"said by {n}")
    print("x" * 300_000)
    assert n != 5
    if n == 7: os.kill(os.getpid(), signal.SIGSEGV)
    if n == 9: os._exit(4)

@pytest.mark.skip
def test_skipped(): ...
"""


def test_no_test_sees_what_another_one_does_to_its_process(suite: Any) -> None:
    suite.write("test_leaks.py", LEAKS)
    run = suite.forked("--fork-each", "--dist", "worksteal")
    assert run.code == 1
    assert run.counts == {"passed": 27, "failure": 1, "error": 2, "skipped": 1}
    assert "ended with signal SIGSEGV" in run.output
    assert "ended with exit status 4" in run.output
    assert "said by 29" in run.output
    assert "node down" not in run.output


def test_the_first_failure_ends_the_run_if_it_is_asked_to(suite: Any) -> None:
    suite.write(
        "test_many.py",
        "import pytest, time\n@pytest.mark.parametrize('n', range(200))\n"
        "def test_n(n):\n    time.sleep(0.05)\n    assert n\n",
    )
    run = suite.forked("--fork-each", "-x")
    assert run.counts["failure"] == 1
    assert sum(run.counts.values()) < 100
