"""Workers that are forked from the collected session do what xdist's workers do."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.once

WHO = """
import json, os, random, sys, tempfile, pytest
IMPORTED_BY = int(os.readlink("/proc/self"))  # no question that is seen

def note(**known):
    with open(f"{os.environ['NOTES']}/{os.getpid()}.json", "w") as file:
        json.dump(known, file)

@pytest.mark.parametrize("n", range(8))
def test_who(n, request, worker_id, testrun_uid, tmp_path, tmp_path_factory):
    note(
        imported_by=IMPORTED_BY,
        id=worker_id,
        variable=os.environ["PYTEST_XDIST_WORKER"],
        input=request.config.workerinput["workerid"],
        count=os.environ["PYTEST_XDIST_WORKER_COUNT"],
        run=testrun_uid,
        folder=str(tmp_path_factory.getbasetemp()),
        drawn=random.random(),
        argv=sys.argv,
        standard=[os.readlink(f"/proc/self/fd/{n}") for n in (0,)],
    )
    import time; time.sleep(0.05)
    assert not request.config.pluginmanager.hasplugin("pasture-report")
    print("said by", worker_id)
    assert capture_is_mine(request)

def capture_is_mine(request):
    said = request.config.pluginmanager.getplugin("capturemanager").read_global_capture().out
    return said == f"said by {os.environ['PYTEST_XDIST_WORKER']}\\n"
"""


def notes(suite: Any, *options: str) -> list[dict[str, Any]]:
    folder = suite.folder / "notes"
    folder.mkdir()
    os.environ["NOTES"] = str(folder)
    run = suite.run(*options)
    assert run.code == 0
    found = [json.loads(path.read_text()) for path in folder.iterdir()]
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    return sorted(found, key=lambda one: str(one["id"]))


def test_each_worker_has_its_own_of_what_xdists_workers_have(suite: Any) -> None:
    suite.write("test_who.py", WHO)
    plain = notes(suite)
    forked = notes(suite, "--pasture")
    assert len({one["imported_by"] for one in plain}) == 2
    assert len({one["imported_by"] for one in forked}) == 1
    assert len({one["drawn"] for one in forked}) == 2
    for one, other in zip(forked, plain, strict=True):
        for key in ("id", "variable", "input", "count", "argv", "standard"):
            assert one[key] == other[key], key
        assert one["id"] == one["variable"] == one["input"]
        assert Path(one["folder"]).name == Path(other["folder"]).name == f"popen-{one['id']}"


MIXED = """
import pytest
@pytest.fixture(scope="module")
def number():
    return 1
class TestOne:
    @pytest.mark.xdist_group("a")
    @pytest.mark.parametrize("n", range(5))
    def test_n(self, n, number):
        assert n != 3
    @pytest.mark.skip
    def test_skipped(self): ...
    @pytest.mark.xfail
    def test_expected(self):
        assert 0
@pytest.fixture
def broken():
    raise LookupError
def test_broken(broken): ...
@pytest.mark.parametrize("n", range(20))
def test_other(n, recwarn):
    import warnings
    warnings.warn("so it is")
"""


@pytest.mark.parametrize(
    "dist", ["load", "loadscope", "loadfile", "loadgroup", "worksteal", "each"]
)
def test_outcomes_are_those_of_xdist_in_each_mode(suite: Any, dist: str) -> None:
    suite.write("test_one.py", MIXED)
    suite.write("test_two.py", MIXED)
    forked = suite.forked("--dist", dist)
    if dist in ("load", "loadgroup"):
        plain = suite.run("--dist", dist)
        assert forked.outcomes == plain.outcomes
        assert forked.code == plain.code
    assert forked.counts == {"passed": 48, "failure": 2, "skipped": 4, "error": 2}
    assert forked.code == 1


def test_a_child_by_spawn_loads_no_main_module(suite: Any) -> None:
    suite.write(
        "test_spawn.py",
        "import multiprocessing, sys\n"
        "def has_pytest(pipe): pipe.send('_pytest.main' in sys.modules)\n"
        "def test_main():\n"
        "    main = sys.modules['__main__']\n"
        "    assert not hasattr(main, '__file__') and main.__spec__ is None\n"
        "    assert main.__builtins__ is sys.modules['builtins']\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    here, there = context.Pipe()\n"
        "    child = context.Process(target=has_pytest, args=[there])\n"
        "    child.start()\n"
        "    assert here.recv() is False\n"
        "    child.join()\n",
    )
    assert suite.forked("-n", "1").counts == {"passed": 1}


def test_a_worker_that_is_killed_is_forked_again(suite: Any) -> None:
    suite.write(
        "test_kill.py",
        "import os, pytest, signal\n"
        "MOLD = int(os.readlink('/proc/self'))\n"
        "@pytest.mark.parametrize('n', range(12))\n"
        "def test_n(n):\n"
        "    assert os.getppid() == MOLD\n"
        "    if n == 4:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    run = suite.forked()
    assert "replacing crashed worker" in run.output
    assert run.counts == {"passed": 11, "error": 1}


def test_no_worker_outlives_an_interrupt(suite: Any) -> None:
    suite.write(
        "test_slow.py",
        "import os, pytest, time\n"
        "@pytest.mark.parametrize('n', range(4))\n"
        "def test_n(n):\n"
        "    open(f'started-{os.getpid()}', 'w').close()\n"
        "    time.sleep(60)\n",
    )
    process = suite.start("--pasture")
    while len(started := list(suite.folder.glob("started-*"))) < 2:
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 2, output
    for path in started:
        assert not Path(f"/proc/{path.name.removeprefix('started-')}").exists()


def test_the_run_ends_at_the_first_failure_if_it_is_asked_to(suite: Any) -> None:
    suite.write("test_one.py", "def test_a():\n    assert 0\n" + "def test_b(): ...\n")
    run = suite.forked("-x")
    assert run.code in (1, 2)
    assert "stopping after 1 failures" in run.output


def test_an_error_of_the_collection_is_reported_as_xdist_reports_it(suite: Any) -> None:
    suite.write("test_one.py", "import absent_module\n")
    suite.write("test_two.py", "def test_a(): ...\n")
    plain, forked = suite.run(), suite.run("--pasture")
    assert forked.outcomes == plain.outcomes
    assert forked.code == plain.code
    assert "absent_module" in forked.output


def test_options_of_pytest_work(suite: Any) -> None:
    suite.write("test_one.py", MIXED)
    first = suite.forked("-s", "-v", "--durations=3")
    again = suite.forked("--lf")
    assert first.counts["failure"] == again.counts["failure"] == 1
    assert sum(again.counts.values()) == 2
    silent = suite.run("--pasture", "-p", "no:cacheprovider", "-p", "no:terminal")
    assert silent.outcomes == first.outcomes


FULL = """
import os, pytest

@pytest.mark.parametrize("n", range(8))
def test_n(n, tmp_path):
    if n % 4 == 1: print("x" * 200_000)
    if n % 4 == 2: os.write(2, b"x" * 200_000), os.write(2, b"x")
    if n % 4 == 3: (tmp_path / "file").write_bytes(b"x" * 200_000)
"""
LIMIT = """
import resource
def pytest_configure(config):
    if hasattr(config, "workerinput"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
"""


def test_no_test_is_lost_where_no_file_can_be_written(suite: Any) -> None:
    suite.write("conftest.py", LIMIT)
    suite.write("test_full.py", FULL)
    plain = suite.run("--no-pasture")
    assert plain.counts == {"passed": 2, "failure": 6}
    for options in ((), ("--fork-each",)):
        run = suite.forked(*options)
        assert (run.outcomes, run.code) == (plain.outcomes, plain.code)
        assert "6 failed, 2 passed" in run.output
    for option in ("--no-pasture", "--pasture"):
        full = suite.run(option, "--junit-xml=/dev/full")
        assert full.code == 1
        assert "OSError: [Errno 28]" in full.output


def test_a_loop_of_a_module_is_woken_in_the_worker_that_waits(suite: Any) -> None:
    suite.write(
        "test_loop.py",
        """
        import asyncio, pytest, time
        LOOP = asyncio.new_event_loop()
        @pytest.mark.parametrize("n", range(40))
        def test_n(n):
            work = asyncio.wait_for(asyncio.to_thread(time.sleep, 0.001), 20)
            LOOP.run_until_complete(work)
        """.replace("\n        ", "\n"),
    )
    assert suite.forked("-n", "3").counts == {"passed": 40}
    suite.collected("-n", "3")
    both = [suite.start("--keep", "-n", "3", f"--basetemp={n}") for n in range(2)]
    assert [one.wait(timeout=300) for one in both] == [0, 0]
    suite.kept("-n", "3", "--fork-each")


def test_hypothesis_finds_what_refers_to_the_generator_of_a_worker(suite: Any) -> None:
    suite.write(
        "test_given.py",
        "import pytest\nfrom hypothesis import given, settings, strategies\n"
        "pytestmark = pytest.mark.filterwarnings('error')\n"
        "@pytest.mark.parametrize('number', range(4))\n"
        "@settings(deadline=None, database=None, derandomize=True)\n"
        "@given(n=strategies.integers())\n"
        "def test_given(n, number): ...\n",
    )
    assert suite.forked().counts == {"passed": 4}
