"""`PASTURE=seal` in the environment: engines are sealed without a change of their command."""

import json
import sys
from pathlib import Path

import pytest
from running import completed, environment

from pasture import _native

PROGRAMS = Path(__file__).parent.parent / "programs"
SEALED = "pasture: policy seal on "
IMMORTAL = _native.HAS_IMMORTALITY
LOOK = (
    "import sys; print(*sorted(m for m in sys.modules if m.startswith('pasture')), "
    "len(sys.modules), len(sys.meta_path))"
)


def run(*words, **variables):
    return completed([sys.executable, *words], env=environment(variables), cwd=PROGRAMS)


def loaded(**variables):
    done = run("-c", LOOK, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_without_the_variable_nothing_is_imported():
    unset = loaded()
    assert unset == loaded(PASTURE="")
    assert [name for name in unset if name.startswith("pasture")] == []


def test_the_variable_alone_imports_the_start_module_and_nothing_of_pasture():
    *names, _, finders = loaded(PASTURE="seal")
    assert names == ["pasture_auto"]
    assert finders == loaded()[-1]  # `-c` is no engine


def test_isolated_mode_leaves_the_variable_unread():
    done = run("-I", str(PROGRAMS / "working_parent.py"), "pool", PASTURE="seal")
    assert done.stderr == ""
    assert SEALED in run(str(PROGRAMS / "working_parent.py"), "pool", PASTURE="seal").stderr


@pytest.mark.interpreter
def test_a_program_that_starts_processes_is_sealed_once():
    done = run("working_parent.py", "pool", PASTURE="seal")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SEALED) == 1
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [IMMORTAL],
        [IMMORTAL, False],
    ]


FORKS = """
import os, sys
def look():
    return sys.getrefcount(os) > 1_000_000
def in_child():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, str(look()).encode())
        os._exit(0)
    os.wait()
    return os.read(reader, 9).decode()
class Child:
    def __call__(self, method):
        import billiard
        with billiard.get_context(method).Pool(1) as pool:
            return pool.apply(look)
if __name__ == "__main__":
    print(in_child(), in_child() if sys.argv[1:] == [] else Child()(sys.argv[1]))
"""


@pytest.mark.once
def test_a_program_that_forks_by_itself_is_sealed_once(tmp_path):
    (tmp_path / "program.py").write_text(FORKS)
    done = run(str(tmp_path / "program.py"), PASTURE="seal")
    assert done.stdout == f"{IMMORTAL} {IMMORTAL}\n"
    assert done.stderr.count(SEALED) == done.stderr.count("\n") == 1


@pytest.mark.once
@pytest.mark.parametrize(
    "setup",
    [
        "if os.fork(): os._exit(os.waitstatus_to_exitcode(os.wait()[1]))\n    os.setsid()",
        "import subprocess; subprocess.run(['true'], preexec_fn=os.getpid)",
    ],
)
def test_a_fork_that_leads_elsewhere_is_not_the_one_that_seals(tmp_path, setup):
    (tmp_path / "program.py").write_text(
        f"import os\ndef begin():\n    {setup}\nbegin()\nprint('end')\n"
    )
    done = run(str(tmp_path / "program.py"), PASTURE="seal")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


UNSEALED = "pasture: not sealed: processes were spawned, which share nothing; PASTURE_FORK_SPAWNED"


@pytest.mark.once
def test_a_program_that_spawns_hears_at_its_end_what_would_fork(tmp_path):
    pytest.importorskip("billiard")
    program = str(tmp_path / "program.py")
    (tmp_path / "program.py").write_text(FORKS.replace("print(in_child(), ", "print("))
    plain = run(program, "spawn", PASTURE="seal")
    assert plain.stdout == "False\n" and plain.stderr.startswith(UNSEALED)
    assert plain.stderr.count("\n") == 1
    forked = run(program, "spawn", PASTURE="seal", PASTURE_FORK_SPAWNED="1")
    assert forked.stdout == f"{IMMORTAL}\n"
    assert forked.stderr.count(SEALED) == forked.stderr.count("\n") == 1


@pytest.mark.once
def test_a_program_that_has_imported_an_engine_forks_what_it_spawns(tmp_path):
    pytest.importorskip("celery")
    program = str(tmp_path / "program.py")
    (tmp_path / "program.py").write_text(
        "import celery.apps.worker\n" + FORKS.replace("print(in_child(), ", "print(")
    )
    done = run(program, "spawn", PASTURE="seal", PASTURE_FORK_SPAWNED="1")
    assert done.stdout == f"{IMMORTAL}\n", done.stderr
    assert "not sealed" not in done.stderr


@pytest.mark.once
@pytest.mark.parametrize(
    "variables",
    [
        {"PASTURE": "seel"},
        {"PASTURE": "seal", "PASTURE_MAX_USS": "much"},
        {"PASTURE": "seel", "PASTURE_POLICY": "seal"},
    ],
)
def test_a_mistake_is_reported_and_the_program_goes_on_unsealed(variables):
    done = run("working_parent.py", "pool", **variables)
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["[false]", "[false, false]"]
    assert "error: " in done.stderr and "pasture: going on unsealed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.once
def test_children_of_the_forkserver_are_sealed_by_the_environment(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, sys\n"
        "def look(): print(sys.getrefcount(multiprocessing) > 1_000_000)\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('forkserver').Process(target=look)\n"
        "    process.start(); process.join()\n"
    )
    done = run(str(program), PASTURE="seal")
    assert done.stdout == "True\n"
    assert done.stderr.count(SEALED) == 1


@pytest.mark.once
def test_generators_of_a_forkservers_modules_are_each_childs_own(tmp_path):
    (tmp_path / "drawing.py").write_text("import random\ngenerator = random.Random()\n")
    (tmp_path / "app.py").write_text(
        "import pasture\n"
        "def draw(queue):\n"
        "    import drawing  # in the server's list: there already\n"
        "    queue.put(drawing.generator.random())\n"
        "if __name__ == '__main__':\n"
        "    context = pasture.sealed_forkserver('drawing')\n"
        "    queue = context.Queue()\n"
        "    for _ in range(2): context.Process(target=draw, args=(queue,)).start()\n"
        "    print(queue.get(), queue.get())\n"
    )
    done = run(str(tmp_path / "app.py"), PASTURE="seal")
    first, second = done.stdout.split()
    assert first != second and "objects immortal" in done.stderr


@pytest.mark.interpreter
def test_gunicorn_is_sealed_by_the_environment(serve):
    server = serve(plain=True, env={"PASTURE": "seal"})
    server.wait_until_it_logs("policy seal on ")
    assert server.get("/who")


@pytest.mark.once
def test_an_agent_that_starts_the_program_is_let_be(tmp_path):
    # As ddtrace-run and opentelemetry-instrument do: a sitecustomize on PYTHONPATH, then an exec.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    busy = False\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] != 'multiprocessing' or self.busy: return None\n"
        "        import importlib.util\n"
        "        Finder.busy = True\n"
        "        try: return importlib.util.find_spec(name)\n"
        "        finally: Finder.busy = False\n"
        "sys.meta_path.insert(0, Finder())\n"
        "print('agent', flush=True)\n"
    )
    agent = tmp_path / "opentelemetry-instrument"
    agent.write_text("import os, sys\nos.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n")
    words = [str(agent), "working_parent.py", "pool"]
    done = run(*words, PASTURE="seal", PYTHONPATH=str(tmp_path))
    assert done.stdout.splitlines() == ["agent", "agent", "[true]", "[true, false]"]
    assert done.stderr.count(SEALED) == 1
