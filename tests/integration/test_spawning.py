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
        (
            "os.environ['SPAWNING_READ'] = 'changed'",
            "the variable 'SPAWNING_READ', which their import has read,",
        ),
        ("os.environ['TZ'] = 'Asia/Tokyo'", r"the variable 'TZ', which \S+ may have read,"),
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
    assert re.search(f"{SPAWNED}{named} has changed since the first one\n", forked.stderr)
    assert rows(forked, "imported").count({"imported": "__mp_main__"}) == 1 + 2


@pytest.mark.once
@pytest.mark.parametrize("change", ["environ['SPAWNING_APP'] = 'x'", "environ.pop('SPAWNING_APP')"])
def test_a_variable_that_has_changed_is_set_in_the_process(change, monkeypatch):
    monkeypatch.setenv("SPAWNING_APP", "before")
    plain, forked = both("spawn", "change", f"os.{change}")
    same(plain, forked, "number")
    assert SPAWNED not in forked.stderr
    assert rows(forked, "imported").count({"imported": "__mp_main__"}) == 1


@pytest.mark.once
def test_a_variable_that_the_import_sets_is_as_the_import_has_set_it(tmp_path):
    app = tmp_path / "app.py"
    app.write_text(
        APP.read_text().replace("READ = ", "os.environ['SPAWNING_APP'] = 'set'\nREAD = ")
    )
    plain, forked = both("spawn", "change", "os.environ['SPAWNING_APP'] = 'x'", app=app)
    same(plain, forked, "number")


@pytest.mark.once
def test_a_program_that_closes_all_its_files_spawns(tmp_path):
    app = tmp_path / "app.py"
    change = (
        "for fd in range(3, 60):\n"
        "    if os.path.exists(f'/proc/self/fd/{fd}') and 'socket' in os.readlink("
        "f'/proc/self/fd/{fd}'): os.dup2(os.memfd_create('x'), fd)"
    )
    app.write_text(APP.read_text())
    plain, forked = both("spawn", "change", change, app=app)
    same(plain, forked, "number")
    assert f"{SPAWNED}what they are forked from has ended" in forked.stderr


@pytest.mark.once
def test_all_variables_count_as_read_where_the_import_lists_them(tmp_path):
    app = tmp_path / "app.py"
    app.write_text(APP.read_text().replace("READ = ", "LISTED = [*os.environ]\nREAD = "))
    plain, forked = both("spawn", "change", "os.environ['SPAWNING_APP'] = 'x'", app=app)
    same(plain, forked, "number")
    assert f"{SPAWNED}the variable 'SPAWNING_APP', which their import has read" in forked.stderr


BILLIARD = """
import sys, time
import billiard
print("imported", flush=True)
def work(number):
    time.sleep(0.2)
    return number * 2
if __name__ == "__main__":
    context = billiard.get_context("spawn")
    with context.Pool(3) as pool:
        print(pool.map(work, range(6), 1))
    one = context.Process(target=sys.exit, args=(3,))
    one.start()
    one.join()
    print(one.exitcode)
"""


@pytest.mark.once
def test_processes_of_billiard_are_forked(tmp_path):
    pytest.importorskip("billiard")
    app = tmp_path / "app.py"
    app.write_text(BILLIARD)
    plain, forked = both(app=app)
    results = [done.stdout.replace("imported\n", "") for done in (plain, forked)]
    assert results[0] == results[1] and "[0, 2, 4, 6, 8, 10]" in results[0]
    assert plain.stdout.count("imported") > 4 and forked.stdout.count("imported") == 2
    assert SPAWNED not in forked.stderr


LIKE_LOKY = """
import os, pickle, sys
from io import BytesIO
import child as spawn

class Popen:
    def _launch(self, number):
        tracker_fd = mp_tracker()
        prep_data = dict(name="x", authkey=b"", dir=os.getcwd(), sys_path=sys.path)
        fp = BytesIO()
        pickle.dump(prep_data, fp)
        pickle.dump(spawn.Work(number), fp)
        child_r, parent_w = os.pipe()
        command = [sys.executable, "-m", "child", "--pipe", str(child_r)]
        environment = {**os.environ, "NUMBER": "7"}
        pid = fork_exec(command, (child_r, tracker_fd), environment)
        os.close(child_r)
        with open(parent_w, "wb") as file:
            file.write(fp.getvalue())
        return pid

def mp_tracker():
    from multiprocessing.resource_tracker import getfd
    return getfd()

def fork_exec(command, files, environment):
    import _posixsubprocess
    read, write = os.pipe()
    given = [f"{name}={value}".encode() for name, value in environment.items()]
    vfork = [] if sys.version_info >= (3, 14) else [False]
    return _posixsubprocess.fork_exec(
        [one.encode() for one in command], [command[0].encode()], True, tuple(sorted(files)), None,
        given, -1, -1, -1, -1, -1, -1, read, write, False, False, -1, None, None, None, -1, None,
        *vfork)

if __name__ == "__main__":
    for number in (3, 4):
        print(os.waitstatus_to_exitcode(os.waitpid(Popen()._launch(number), 0)[1]), flush=True)
"""

CHILD = """
import os, pickle, sys
def prepare(data):
    sys.path = data["sys_path"]
class Work:
    def __init__(self, number):
        self.number = number
    def _bootstrap(self):
        print(__name__, sys.argv[1], os.environ["NUMBER"], flush=True)
        return self.number
if __name__ == "__main__":
    print("begin", flush=True)
    exitcode = 1
    try:
        with os.fdopen(int(sys.argv[-1]), "rb") as file:
            prepare(pickle.load(file))
            work = pickle.load(file)
        exitcode = work._bootstrap()
    finally:
        sys.exit(exitcode)
"""


@pytest.mark.once
def test_processes_of_a_library_that_starts_a_module_as_loky_are_forked(tmp_path):
    (tmp_path / "child.py").write_text(CHILD)
    app = tmp_path / "app.py"
    app.write_text(LIKE_LOKY)
    plain, forked = both(app=app)
    assert plain.stdout == "".join(f"begin\nchild --pipe 7\n{number}\n" for number in (3, 4))
    assert forked.stdout == f"begin\n{plain.stdout}"  # of what they are forked from
    assert forked.stderr.count(SEALED) == 1 and SPAWNED not in forked.stderr


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
    assert "gunicorn does not take --fork-spawned" in done.stderr
