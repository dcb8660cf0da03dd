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
