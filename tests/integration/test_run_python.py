"""`pasture run -- python app.py`: which forks are sealed, and that the program notices not."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import TIMEOUT_S, completed

from pasture import _native
from pasture.errors import AppImportFailed

PROGRAMS = Path(__file__).parent.parent / "programs"
SEALED = "pasture: policy seal on "


def run(way, *options, env=None, program=None):
    command = [sys.executable, "-m", "pasture", "run", *options, "--", "python"]
    return completed(
        [*command, *(program or [str(PROGRAMS / "forking_app.py"), way])],
        env={**os.environ, **(env or {})},
    )


def workers(done):
    return {row["worker"]: row["immortal"] for row in map(json.loads, done.stdout.splitlines())}


IMMORTAL = _native.HAS_IMMORTALITY


@pytest.mark.interpreter
def test_the_first_fork_of_a_worker_is_sealed_once_and_the_exit_code_is_the_programs():
    done = run("workers", env={"STATUS": "3"})
    assert workers(done) == {"first": IMMORTAL, "second": IMMORTAL}
    assert done.stderr.count(SEALED) == 1 and "no warm-up" not in done.stderr
    assert done.stderr.count("; next: pasture top ") == 1
    assert done.returncode == 3


@pytest.mark.interpreter
@pytest.mark.parametrize("way", ["exec", "subprocess"])
def test_a_fork_that_leads_to_an_exec_does_not_seal(way):
    done = run(way)
    assert workers(done) == {"parent": False, "after": IMMORTAL}
    assert done.returncode == 0, done.stderr


def test_the_two_forks_of_a_daemon_do_not_seal(tmp_path):
    out = tmp_path / "out"
    with out.open("wb") as stream:
        command = [sys.executable, "-m", "pasture", "run", "--", "python"]
        started = subprocess.run(
            [*command, str(PROGRAMS / "forking_app.py"), "daemon"],
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
        )
    assert started.returncode == 0
    deadline = time.monotonic() + TIMEOUT_S
    while '"after"' not in out.read_text():
        assert time.monotonic() < deadline, out.read_text()
        time.sleep(0.05)
    rows = [json.loads(line) for line in out.read_text().splitlines() if line.startswith("{")]
    assert [(row["worker"], row["immortal"]) for row in rows] == [
        ("parent", False),
        ("after", IMMORTAL),
    ]


def test_the_seal_waits_for_what_it_was_asked_to_wait_for():
    done = run("early", "--after", "__main__:RECORDS")
    assert workers(done) == {"early": False, "late": IMMORTAL}
    assert done.stderr.count(SEALED) == 1


def test_a_thread_is_refused_when_strict_and_reported_otherwise():
    assert SEALED in run("thread").stderr
    assert "not sealed" in run("thread", env={"LOOKOUT": "runs"}).stderr
    done = run("thread", "--strict")
    assert done.returncode == 12
    assert "error: " in done.stderr and "lookout" in done.stderr
    assert done.stdout == ""


def test_a_script_is_main_with_its_own_arguments_and_path():
    name, file, argv, first = json.loads(run("arguments").stdout)
    script = str(PROGRAMS / "forking_app.py")
    assert (name, file, argv, first) == ("__main__", script, [script, "arguments"], str(PROGRAMS))


@pytest.mark.interpreter
@pytest.mark.parametrize(
    ("program", "shown"),
    [
        (["-c", "import sys; print(sys.argv, __name__)", "a"], "['-c', 'a'] __main__"),
        (["-m", "platform", "terse"], "Linux"),
    ],
)
def test_modules_and_code_run_as_python_runs_them(program, shown):
    assert shown in run("", program=program).stdout


PROGRAM = """
import inspect, sys, traceback, warnings
print(__name__, __file__, __spec__ and __spec__.name, sys.argv, sys.path[0], len(inspect.stack()))
print(sorted(globals()), sys.modules["__main__"].__dict__ is globals(), traceback.format_stack()[0])
warnings.warn("of the program", stacklevel=1)
def fail(): 1 / 0
fail()
"""


@pytest.mark.interpreter
def test_no_frame_of_ours_is_below_a_programs_own(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    package = tmp_path / "package"
    package.mkdir()
    (package / "__main__.py").write_text(PROGRAM)
    for words in (
        ["program.py", "a"],
        ["./program.py"],
        [str(tmp_path / "program.py"), "-x"],
        ["-m", "program", "a"],
        ["-m", "package"],
        ["package", "b"],
        ["-c", PROGRAM.replace("__file__, ", ""), "c"],
    ):
        ways = ["-m", "pasture", "run", "--", "python"], []
        sealed, plain = (completed([sys.executable, *way, *words], cwd=tmp_path) for way in ways)
        lines = sealed.stderr.splitlines(keepends=True)
        shown = "".join(line for line in lines if not line.startswith("pasture: "))
        assert (sealed.returncode, sealed.stdout, shown) == (1, plain.stdout, plain.stderr)


@pytest.mark.parametrize(
    ("program", "reported"),
    [
        (["no_such_file.py"], "error: cannot open no_such_file.py"),
        (["-X", "dev", "a.py"], "error: cannot run python -X dev a.py"),
        ([], "error: cannot run python"),
    ],
)
def test_what_cannot_be_run_is_reported_without_a_traceback(program, reported):
    command = [sys.executable, "-m", "pasture", "run", "--", "python", *program]
    done = completed(command)
    assert done.returncode == 2
    assert reported in done.stderr and "Traceback" not in done.stderr


def test_other_servers_have_no_use_for_after():
    command = [sys.executable, "-m", "pasture", "run", "--after", "x", "gunicorn", "x:y"]
    done = completed(command)
    assert done.returncode == 2 and "gunicorn does not take --after" in done.stderr


@pytest.mark.once
def test_a_program_is_sealed_again_where_much_was_loaded_between_its_forks():
    done = run("", program=[str(PROGRAMS / "working_parent.py"), "fork"])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows == [[True], [True, True]]


@pytest.mark.once
def test_modules_are_preloaded_before_the_seal_and_one_that_fails_is_reported(tmp_path):
    (tmp_path / "tables.py").write_text("print('tables', flush=True)")
    (tmp_path / "broken.py").write_text("import nothing_there")
    program = tmp_path / "app.py"
    program.write_text(
        "import os, sys\nif not os.fork(): print('tables' in sys.modules)\nelse: os.wait()"
    )
    done = run("", "--preload", "broken,tables", program=[str(program)])
    assert done.stdout.split() == ["tables", "True"]
    assert "not preloaded: broken cannot be imported" in done.stderr
    done = run("", "--strict", "--preload", "broken,tables", program=[str(program)])
    assert done.returncode == AppImportFailed.exit_code, done.stderr


POOL = """
import json, multiprocessing, sys
TABLE = [str(n) for n in range(1000)]

def is_immortal(_):
    return sys._is_immortal(TABLE)

if __name__ == "__main__":
    exec(sys.argv[2])
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(json.dumps(pool.map(is_immortal, [0])))
"""


@pytest.mark.once
def test_a_forkserver_of_the_program_is_sealed_whatever_it_preloads(tmp_path):
    program = tmp_path / "pool.py"
    program.write_text(POOL)
    for preload in ("", "multiprocessing.set_forkserver_preload(['__main__', 'json'])"):
        done = run("", program=[str(program), "forkserver", preload])
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(SEALED) == 1, done.stderr
        assert json.loads(done.stdout) == [True]


NESTED = """
import multiprocessing, sys
TABLE = [str(n) for n in range(1000)]
context = multiprocessing.get_context("forkserver")

def look(depth):
    print(sys._is_immortal(TABLE), flush=True)
    if depth:
        process = context.Process(target=look, args=(depth - 1,))
        process.start()
        process.join()

if __name__ == "__main__":
    look(2)
"""


@pytest.mark.once
@pytest.mark.skipif(sys.version_info < (3, 14), reason="CPython says it from 3.14 on")
def test_a_forkserver_that_a_child_starts_is_sealed(tmp_path):
    program = tmp_path / "nested.py"
    program.write_text(NESTED)
    done = run("", program=[str(program)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True", "True"], done.stderr
    assert done.stderr.count(SEALED) == 2, done.stderr


@pytest.mark.once
def test_a_sealed_process_whose_workers_are_not_forked_says_so_at_its_exit(tmp_path):
    program = tmp_path / "pool.py"
    program.write_text(POOL)
    unshared = "this process is sealed and has not forked"
    seal = "import pasture; pasture.seal()"
    for method, count in (("forkserver", 1), ("spawn", 1), ("fork", 0)):
        command = [sys.executable, str(program), method, seal]
        done = completed(command)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(unshared) == count, done.stderr


def test_a_transaction_and_a_session_of_the_parent_go_on_and_children_have_their_own(tmp_path):
    pytest.importorskip("django")
    program = [str(PROGRAMS / "transaction_app.py"), str(tmp_path / "sales.sqlite3")]
    done = run("", program=program)
    assert json.loads(done.stdout) == {"rows": 2, "basket": [], "seen": [0, 0]}, done.stderr
    assert "the open transaction of Django's connection 'default'" in done.stderr


@pytest.mark.interpreter
def test_a_sealed_parent_that_cannot_write_its_output_ends_with_120(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os\nif not os.fork(): os._exit(0)\nos.wait()\nos.close(1)\nprint('lost')\n"
    )
    with (tmp_path / "out").open("w") as out:  # where a terminal's lines are written at once
        command = [sys.executable, "-m", "pasture", "run", "--", "python", str(program)]
        done = subprocess.run(
            command,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
            env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        )
    assert done.returncode == 120 and SEALED in done.stderr
    assert "stdout" in done.stderr and "BufferedWriter" not in done.stderr
