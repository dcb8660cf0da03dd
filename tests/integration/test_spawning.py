"""`pasture run --fork-spawned`: processes of multiprocessing, forked as if they were spawned.

Each test runs one program plainly and so, and compares what its processes have seen.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from running import TIMEOUT_S, completed

APP = Path(__file__).parent.parent / "programs" / "spawning_app.py"
SEALED = "pasture: policy seal on "
SPAWNED = "pasture: processes are spawned, not forked: "
FORKING = (sys.executable, "-m", "pasture", "run", "--fork-spawned", "--", "python")


def run(*words, begin=FORKING, app=APP):
    return completed([*begin, str(app), *words], input="", cwd=app.parent)


def both(*words, app=APP):
    plain, forked = run(*words, begin=[sys.executable], app=app), run(*words, app=app)
    assert plain.returncode == 0, plain.stderr
    assert forked.returncode == 0, forked.stderr
    return plain, forked


def rows(done, name):
    return [row for row in map(json.loads, done.stdout.splitlines()) if name in row]


def same(plain, forked, *names):
    for name in names:
        assert rows(plain, name) == rows(forked, name) != []


@pytest.mark.interpreter
def test_a_forked_process_sees_and_ends_as_a_spawned_one():
    plain, forked = both("spawn", "plain")
    same(plain, forked, "number", "statuses", "pool", "executor", "manager", "filled")
    # Workers of a pool may be killed before, and one more of them gives others the next number.
    names = [[row["end"] for row in rows(done, "end")] for done in (plain, forked)]
    ends = [
        Counter(re.sub(r"-\d+", "", one) for one in each if "Pool" not in one) for each in names
    ]
    assert ends[0] == ends[1] and len(ends[0]) > 3, ends
    assert plain.stderr == "".join(forked.stderr.splitlines(keepends=True)[1:])
    assert forked.stderr.count(SEALED) == 1 and SPAWNED not in forked.stderr
    assert rows(forked, "imported").count({"imported": "__mp_main__"}) == 2  # the nested one, too
    assert rows(plain, "imported").count({"imported": "__mp_main__"}) > 10


@pytest.mark.once
def test_processes_of_an_own_forkserver_are_its_own():
    done = run("forkserver", "change", "context.set_forkserver_preload(['json'])")
    assert done.returncode == 0 and done.stderr.count(SEALED) == 2, done.stderr
    assert rows(done, "number")[-1]["parents"] == [False, True]
    assert rows(done, "number")[0]["parents"] == [True, True]


@pytest.mark.once
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("os.environ['SPAWNING_APP'] = 'changed'", "the variable 'SPAWNING_APP'"),
        ("os.umask(0o27)", "Umask"),
        ("os.chdir('/')", "dir"),
        ("sys.path.insert(0, '/')", "sys_path"),
        ("sys.argv.append('more')", "sys_argv"),
        ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "SigIgn"),
        ("os.dup2(os.open(os.devnull, os.O_RDWR), 0)", "file 0"),
        ("import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))", "limits"),
    ],
)
def test_a_process_that_would_begin_in_another_state_is_spawned(change, named):
    plain, forked = both("spawn", "change", change)
    same(plain, forked, "number")
    assert f"{SPAWNED}{named} has changed since the first one\n" in forked.stderr
    assert rows(forked, "imported").count({"imported": "__mp_main__"}) == 1 + 2


@pytest.mark.once
def test_a_thread_that_the_main_module_starts_at_its_import_is_in_each_process():
    plain, forked = both("spawn", "thread")
    same(plain, forked, "number")
    assert f"{SPAWNED}thread Thread-1" in forked.stderr


@pytest.mark.once
def test_a_module_that_has_changed_on_disk_is_loaded_again(tmp_path):
    app = tmp_path / "app.py"
    app.write_text(APP.read_text())
    change = f"f = open({str(app)!r}, 'a'); f.write('\\nNEW = 1\\n'); f.close()"
    plain, forked = both("spawn", "change", change, app=app)
    same(plain, forked, "number")
    assert f"{SPAWNED}{app} has changed" in forked.stderr


@pytest.mark.once
def test_without_the_process_that_forks_they_are_spawned():
    plain, forked = both("spawn", "killed")
    same(plain, forked, "number")
    assert f"{SPAWNED}what they are forked from has ended" in forked.stderr


@pytest.mark.once
def test_a_main_module_that_starts_processes_at_its_import_fails_as_without(tmp_path):
    app = tmp_path / "app.py"
    app.write_text(
        "import multiprocessing as m\n"
        "p = m.get_context('spawn').Process(target=print); p.start(); p.join(); print(p.exitcode)"
    )
    done = run(app=app)
    assert done.stdout == "1\n" and "before the\n        current process has" in done.stderr
    assert SPAWNED in done.stderr


@pytest.mark.once
def test_it_ends_with_the_program_and_leaves_its_processes_to_the_kernel(tmp_path):
    app = tmp_path / "app.py"
    app.write_text(
        "import multiprocessing, time\n"
        "if __name__ == '__main__':\n"
        "    p = multiprocessing.get_context('spawn').Process(target=time.sleep, args=(600,))\n"
        "    p.start(); print(p.pid, flush=True); p.join()\n"
    )
    with subprocess.Popen([*FORKING, str(app)], stdout=subprocess.PIPE, text=True) as program:
        worker = psutil.Process(int(program.stdout.readline()))
        children = psutil.Process(program.pid).children()
        assert worker in children and len(children) == 3
        [forks] = [one for one in children if one != worker and "spawn_main" in str(one.cmdline())]
        program.kill()
    try:
        forks.wait(TIMEOUT_S)
        assert worker.is_running() and worker.ppid() != program.pid
    finally:
        worker.kill()


@pytest.mark.once
def test_an_interrupt_of_the_terminal_leaves_the_processes_to_the_program(tmp_path):
    app = tmp_path / "app.py"
    app.write_text(
        "import multiprocessing, sys, time\n"
        "def work(pipe):\n"
        "    try: pipe.send(0); time.sleep(60)\n"
        "    except KeyboardInterrupt: sys.exit(3)\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    for _ in range(2):\n"
        "        reader, writer = context.Pipe()\n"
        "        p = context.Process(target=work, args=(writer,)); p.start(); reader.recv()\n"
        "        print('ready', flush=True)\n"
        "        try: p.join(60)\n"
        "        except KeyboardInterrupt: p.join(60)\n"
        "        print(p.exitcode, flush=True)\n"
    )
    with subprocess.Popen(
        [*FORKING, str(app)], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        for _ in range(2):
            assert program.stdout.readline() == "ready\n"
            time.sleep(0.1)
            os.killpg(program.pid, signal.SIGINT)
            assert program.stdout.readline() == "3\n"
    assert program.returncode == 0


@pytest.mark.once
def test_an_engine_that_forks_by_itself_refuses_it():
    command = [sys.executable, "-m", "pasture", "run", "--fork-spawned", "gunicorn", "app"]
    done = completed(command)
    assert done.returncode == 2
    assert "--fork-spawned is of no use to gunicorn" in done.stderr
