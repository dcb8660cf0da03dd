"""A collection that is kept serves later runs, as long as it would come out the same."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.once

TESTS = """
import os, pytest, sys
import library
COLLECTED_BY = int(os.readlink("/proc/self"))  # no question that is seen

@pytest.mark.parametrize("n", range(4))
def test_n(n, number, worker_id, tmp_path):
    assert os.getpid() != COLLECTED_BY and worker_id == os.environ["PYTEST_XDIST_WORKER"]
    print("to the terminal of this run", file=sys.__stderr__)

def test_of_library():
    assert library.NUMBER == 1
"""
CONFTEST = "import pytest\n@pytest.fixture(scope='session')\ndef number(): return 1\n"


def collections_in(folder: Path) -> list[Path]:
    """The sockets of what is kept."""
    return list(folder.iterdir())


@pytest.fixture
def project(suite: Any) -> Any:
    suite.write("library.py", "NUMBER = 1\n")
    suite.write("conftest.py", CONFTEST)
    suite.write("test_one.py", TESTS)
    suite.write("test_two.py", "def test_a(): ...\ndef test_b(): assert 0\n")
    return suite


def test_a_later_run_is_like_the_first_one(project: Any) -> None:
    first, reason = project.collected("-v", "--pasture-report=report.json")
    assert not reason
    later = project.kept("--pasture-report=report.json")
    assert later.outcomes == first.outcomes
    assert later.code == first.code == 1
    report = json.loads((project.folder / "report.json").read_text())
    assert report["collection"]["kept_s"] > 0 and report["collected_again"] is None
    assert project.kept("-k", "test_n").counts == {"passed": 4}
    assert project.kept("--lf").outcomes == {"test_two::test_b": "failure"}
    assert project.kept("-x", "--fork-each", "-n", "3").counts["failure"] == 1
    assert project.kept("--dist", "loadfile").outcomes == first.outcomes


def test_output_goes_to_the_run_that_it_is_of(project: Any) -> None:
    first, _ = project.collected("-s", "-k", "test_n")
    assert first.output.count("to the terminal of this run") == 4
    later = project.kept("-s", "-k", "test_n")
    assert later.output.count("to the terminal of this run") == 4


def test_what_is_kept_holds_nothing_open_that_the_run_was_given(project: Any) -> None:
    ours, theirs = os.pipe()
    command = project.command("--keep")
    output = subprocess.run(
        command,
        cwd=project.folder,
        env=project.environment,
        pass_fds=[theirs],
        capture_output=True,  # returns when no process holds the pipe
        text=True,
    ).stdout
    os.close(theirs)
    os.set_blocking(ours, False)
    assert os.read(ours, 1) == b""
    os.close(ours)
    assert " tests collected in " in output
    project.kept()


def test_files_that_changed_are_collected_again(project: Any) -> None:
    project.collected()
    project.write("test_two.py", "def test_new(): ...\n")
    changed = project.kept()
    assert changed.counts == {"passed": 6}
    assert "; 1 files collected again" in changed.output
    project.write("test_three.py", "import helper\ndef test_c(): helper.act()\n")
    project.write("helper.py", "def act(): ...\n")
    assert project.kept().counts == {"passed": 7}
    (project.folder / "test_two.py").rename(project.folder / "test_renamed.py")
    assert project.kept().outcomes["test_renamed::test_new"] == "passed"
    (project.folder / "more").mkdir()
    project.write("more/test_four.py", "def test_more(number): assert number == 1\n")
    assert project.kept().outcomes["more.test_four::test_more"] == "passed"
    project.write("test_renamed.py", "def test_new(:\n")
    broken = project.run("--keep")
    assert "test_renamed.py" in broken.output and "SyntaxError" in broken.output
    assert broken.code != 0


def test_everything_else_that_changed_is_a_reason_to_collect_anew(project: Any) -> None:
    project.collected()
    project.write("library.py", "NUMBER = 20\n")
    run, reason = project.collected()
    assert reason.endswith("library.py has changed")
    assert run.outcomes["test_one::test_of_library"] == "failure"
    project.write("conftest.py", CONFTEST + "NUMBER = 2\n")
    assert project.collected()[1].endswith("conftest.py has changed")
    project.write("pytest.ini", "[pytest]\nmarkers = own\n")
    assert project.collected()[1].endswith("pytest.ini has changed")
    os.environ["OF_A_TEST"] = "1"
    try:
        assert project.collected()[1].endswith("the environment's OF_A_TEST changed")
    finally:
        del os.environ["OF_A_TEST"]
    assert project.collected()[1].endswith("the environment's OF_A_TEST changed")
    (project.folder / "more").mkdir()
    project.write("more/conftest.py", "")
    project.write("test_two.py", "# test_one, too\ndef test_a(): ...\n")
    project.kept()
    project.write("test_one.py", TESTS + "\n")
    assert project.collected()[1].endswith("test_one.py has changed, and test_two.py names it")
    project.write("test_one.py", "import pathlib\nD = pathlib.Path('data').read_text()\n")
    project.write("data", "1")
    project.collected()
    project.write("data", "2")
    assert project.collected()[1].endswith("data has changed")


@pytest.mark.parametrize("words", [(), ("tests/test_one.py",)])
def test_what_was_looked_for_in_vain_is_looked_for_again(suite: Any, words: tuple[str]) -> None:
    (suite.folder / "tests").mkdir()
    suite.write(
        "tests/test_one.py",
        "try: import helper\nexcept ImportError: helper = None\ndef test_a(): assert not helper\n",
    )
    suite.write("conftest.py", "")
    assert suite.collected(*words)[0].counts == {"passed": 1}
    suite.kept(*words)
    suite.write("tests/helper.py", "")
    run, reason = suite.collected(*words)
    assert run.counts == {"failure": 1} and reason.endswith("tests/helper.py is new")
    suite.write("tests/conftest.py", "def pytest_runtest_setup(): raise ValueError\n")
    run, reason = suite.collected(*words)
    assert run.counts == {"error": 1} and reason


def slow(project: Any) -> tuple[subprocess.Popen[str], Path]:
    """A later run in the midst of a test, and the folder in /proc of its worker."""
    project.write("test_two.py", "")
    project.write(
        "test_one.py",
        "import os, time\ndef test_slow():\n"
        "    open(f'started-{os.getpid()}', 'w').close()\n    time.sleep(60)\n"
        "def test_quick(): ...\n",
    )
    project.collected("-k", "quick")
    process = project.start("--keep")
    while not (started := list(project.folder.glob("started-*"))):
        assert process.poll() is None
    return process, Path("/proc", started[0].name.removeprefix("started-"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_and_not_what_is_kept(project: Any, number: int) -> None:
    process, worker = slow(project)
    os.killpg(process.pid, number)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == (2 if number == signal.SIGINT else -number), output
    while number != signal.SIGINT and worker.exists():
        pass  # as under plain xdist, it sees that its controller has gone
    assert not worker.exists()
    project.kept("-k", "quick")


def test_messages_that_are_none_do_not_end_it(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.collected()
    (path,) = collections_in(Path(project.environment["XDG_RUNTIME_DIR"]) / "pytest-pasture")
    monkeypatch.chdir(path.parent)  # a path of this length fits in no socket's name
    for data in (b"", b"\x80\x05none", os.urandom(1000)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
            end.connect(path.name)
            end.send(data)
    project.kept()


def test_two_runs_at_once_and_an_end_in_their_midst(project: Any) -> None:
    project.write(
        "test_two.py",
        "import os, time\n"
        "def test_slow():\n"
        "    open(f'started-{os.getpid()}', 'w').close()\n"
        "    while not os.path.exists('go'): time.sleep(0.05)\n",
    )
    project.collected("-k", "test_n")
    both = [project.start("--keep", f"--basetemp=temporary-{n}") for n in range(2)]
    while len(list(project.folder.glob("started-*"))) < 2:
        assert [one.poll() for one in both] == [None, None]
    stop = project.start("--keep-stop")
    project.write("go", "")
    for one in both:
        output, _ = one.communicate(timeout=300)
        assert one.returncode == 0, output
        assert " tests, kept for " in output
    assert "ended 1 kept process" in stop.communicate(timeout=300)[0]
    assert stop.returncode == 0
    assert project.collected()[1] == ""


@pytest.mark.parametrize("mode", [0o777, 0o750])
def test_a_folder_of_others_keeps_nothing(project: Any, mode: int) -> None:
    runtime = Path(project.environment["XDG_RUNTIME_DIR"])
    (runtime / "pytest-pasture").mkdir(parents=True)
    (runtime / "pytest-pasture").chmod(mode)
    run = project.run("--keep")
    assert "pasture: not kept: " in run.output
    assert run.counts == {"passed": 6, "failure": 1}


def test_a_stale_socket_is_in_no_run_s_way(project: Any) -> None:
    project.collected()
    folder = Path(project.environment["XDG_RUNTIME_DIR"]) / "pytest-pasture"
    (path,) = collections_in(folder)
    assert "ended 1 kept process" in project.run("--keep-stop").output
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        left.bind(f"/proc/self/fd/{os.open(folder, os.O_RDONLY)}/{path.name}")
    _, reason = project.collected()
    assert not reason
    project.kept()


def test_what_no_run_uses_ends(project: Any) -> None:
    project.write("pytest.ini", "[pytest]\npasture_keep_minutes = 0.001\n")
    project.run("--keep", "--co", "-q")  # keeps nothing
    run = project.run("--keep")
    assert " tests collected in " in run.output and "not kept" not in run.output
    folder = Path(project.environment["XDG_RUNTIME_DIR"]) / "pytest-pasture"
    (path,) = collections_in(folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        with pytest.raises(OSError):
            while True:
                left.connect(str(path))
    project.write("pytest.ini", "[pytest]\npasture_keep_minutes = soon\n")
    assert "pasture_keep_minutes is not a number: 'soon'" in project.run("--keep").output
