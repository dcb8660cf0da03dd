"""The controller of a later run, out of a process that has loaded the first conftests."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.once

CONFTEST = """
import pytest, sys
from pathlib import Path
IMPORTS = Path(__file__).with_name("imports")
if sys.argv[0] != "-c":  # no worker of plain xdist
    IMPORTS.write_text(IMPORTS.read_text() + "x" if IMPORTS.exists() else "x")

def pytest_addoption(parser):
    parser.addoption("--own")

@pytest.fixture
def own(request):
    return request.config.getoption("--own")
"""
TESTS = """
import os, sys
def test_own(own):
    assert own == "as given"
def test_b(): ...
"""


@pytest.fixture
def project(suite: Any) -> Any:
    suite.write("conftest.py", CONFTEST)
    suite.write("test_one.py", TESTS)
    return suite


def imports(project: Any) -> int:
    """How often controllers have imported the conftest."""
    return len((project.folder / "imports").read_text())


def standbys(project: Any) -> list[Path]:
    """The sockets of processes that stand by."""
    folder = Path(project.environment["XDG_RUNTIME_DIR"]) / "pytest-pasture"
    return [path for path in folder.glob("*") if path.name.partition("-")[0].endswith("s")]


def command(project: Any, *options: str) -> list[str]:
    return [*project.command("--keep", *options), "--own", "as given"]


def run(project: Any, *options: str, **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(project, *options),
        cwd=project.folder,
        env=project.environment,
        timeout=100,
        text=True,
        **how,
    )


def test_conftests_are_not_imported_again(project: Any) -> None:
    first = run(project, "-v", "-k", "test_own", "--maxfail=1", capture_output=True)
    assert first.returncode == 0, first.stdout + first.stderr
    assert imports(project) == 1
    whole = run(project, capture_output=True)
    assert "2 passed" in whole.stdout and "PASSED" not in whole.stdout
    later = run(project, "-k", "test_b", "--color=yes", capture_output=True)
    assert later.returncode == 0, later.stdout + later.stderr
    assert "1 passed" in later.stdout and "\x1b[" in later.stdout and not later.stderr
    assert run(project, "-k", "no_test", capture_output=True).returncode == 5
    assert imports(project) == 1
    usage = run(project, "--no-such-option", capture_output=True)
    assert usage.returncode == 4 and "--no-such-option" in usage.stderr


def test_a_controller_can_collect_anew(project: Any) -> None:
    project.write("library.py", "")
    project.write("test_one.py", TESTS + "import library\n")
    ends = os.pipe()
    first = run(project, capture_output=True, pass_fds=ends)
    assert "2 tests collected in" in first.stdout
    project.write("library.py", "CHANGED = True\n")
    second = run(project, capture_output=True)
    assert "library.py has changed" in second.stdout and "2 tests collected in" in second.stdout
    assert second.returncode == 0 and imports(project) == 1
    for end in ends:
        os.close(end)


def test_a_change_loads_them_again(project: Any) -> None:
    run(project)
    project.write("conftest.py", CONFTEST + "\n")
    run(project)
    assert imports(project) == 2
    os.environ["OF_A_TEST"] = "1"
    try:
        run(project)
        assert imports(project) == 3
        run(project)
        assert imports(project) == 3
    finally:
        del os.environ["OF_A_TEST"]


@pytest.mark.parametrize(
    "made",
    [
        "import atexit, shutil; atexit.register(shutil.rmtree, 'none', ignore_errors=True)",
        "import tempfile; TEMPORARY = tempfile.mkdtemp(dir=Path(__file__).parent)",
        "import weakref; ENDED = weakref.finalize(pytest, IMPORTS.exists)",
        "import socket; CONNECTED = socket.socketpair()",
        "LOG = open(Path(__file__).with_name('log'), 'a')",
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "import subprocess; CHILD = subprocess.Popen(['sleep', '20'])",
    ],
)
def test_none_stays_with_what_its_children_could_not_have(project: Any, made: str) -> None:
    project.write("conftest.py", f"{CONFTEST}\n{made}\n")
    run(project, capture_output=True)
    assert imports(project) == 1 and not standbys(project)


def test_none_stays_where_a_plug_in_works_on_the_first_conftests(project: Any) -> None:
    project.write("plugin.py", "def pytest_load_initial_conftests(args): ...\n")
    run(project, "-p", "plugin", capture_output=True)
    assert imports(project) == 1 and not standbys(project)


def test_a_program_that_calls_pytest_goes_on_after_it(project: Any) -> None:
    project.write("run.py", "import pytest, sys\nprint('ended', int(pytest.main(sys.argv[1:])))\n")
    words = command(project)[3:]
    for turn in range(2):
        output = subprocess.run(
            [sys.executable, "run.py", *words],
            cwd=project.folder,
            env=project.environment,
            capture_output=True,
            text=True,
        ).stdout
        assert output.count("ended 0") == 1, output
        assert imports(project) == turn + 1


def slow(project: Any) -> subprocess.Popen[str]:
    """A later run, in the midst of a test."""
    project.write(
        "test_one.py",
        textwrap.dedent(
            """
            import os, time
            def test_slow():
                open(f"started-{os.getpid()}", "w").close()
                time.sleep(60)
            def test_quick(): ...
            """
        ),
    )
    run(project, "-k", "quick", capture_output=True)
    process: subprocess.Popen[str] = project.start("--keep", "--own", "as given")
    while not list(project.folder.glob("started-*")):
        assert process.poll() is None
    assert imports(project) == 1
    return process


def worker(project: Any) -> Path:
    (started,) = project.folder.glob("started-*")
    return Path("/proc", started.name.removeprefix("started-"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_run_as_it_ends_plain_pytest(project: Any, number: int) -> None:
    process = slow(project)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == (2 if number == signal.SIGINT else -number), output


def test_a_run_that_is_killed_leaves_nothing_running(project: Any) -> None:
    process = slow(project)
    process.kill()
    process.communicate(timeout=60)  # no process holds its streams any more
    while worker(project).exists():
        pass
    assert run(project, "-k", "quick", capture_output=True).returncode == 0
    assert imports(project) == 1


def test_it_stops_and_goes_on_as_its_terminal_says(project: Any) -> None:
    process = slow(project)
    process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 2


def test_streams_are_those_of_the_run(project: Any) -> None:
    project.write("conftest.py", CONFTEST + "print('at import', file=sys.stderr)\n")
    run(project, "-s", capture_output=True)
    with (project.folder / "output").open("w+") as output:
        later = run(project, "-s", stdin=subprocess.PIPE, stdout=output, stderr=subprocess.PIPE)
        output.seek(0)
        assert "2 passed" in output.read() and not later.stderr
    ours, theirs = os.pipe()
    os.close(ours)  # a reader that has gone
    with os.fdopen(theirs, "w") as closed:
        broken = run(project, "-s", stdout=closed, stderr=subprocess.PIPE)
    assert (broken.returncode, broken.stderr) == (1, "")  # as without the plug-in
    assert imports(project) == 1


def test_it_ends_when_it_is_asked_to(project: Any) -> None:
    run(project, capture_output=True)
    assert standbys(project)
    stopped = project.run("--keep-stop")
    assert "1 kept process ended" in stopped.output and not standbys(project)


def test_messages_of_others_do_not_end_it(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run(project, capture_output=True)
    (path,) = standbys(project)
    monkeypatch.chdir(path.parent)  # a path of this length fits in no socket's name
    for data in (b"", b"\x80\x05none", os.urandom(1000)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
            end.connect(path.name)
            end.send(data)
    assert run(project, capture_output=True).returncode == 0
    assert imports(project) == 1
