"""Servers that fork nothing: the log says so once, and what would help."""

import sys

import pytest
from running import completed, environment

pytestmark = pytest.mark.once

RUN = ["-m", "pasture", "run", "--", sys.executable]
WAYS = {"run": (RUN, {}), "variable": ([], {"PASTURE": "seal"})}
SAID = "pasture: not sealed: {} serves in one process"
NOTHING = "pasture: nothing was sealed: the program forked no process\n"

# As the packages have it, as far as it counts here.
SERVERS = {
    "waitress": (
        "server",
        "class BaseWSGIServer:\n    def run(self): print('serves')\n"
        "class MultiSocketServer:\n    def run(self): BaseWSGIServer().run()\n",
        "MultiSocketServer().run()",
    ),
    "cheroot": (
        "server",
        "class HTTPServer:\n    def serve(self): print('serves')\n",
        "HTTPServer().serve()",
    ),
    "daphne": ("server", "class Server:\n    def run(self): print('serves')\n", "Server().run()"),
    "aiohttp": ("web", "def run_app(app): print('serves')\n", "run_app(None)"),
}


@pytest.fixture
def start(tmp_path):
    """Args of the function: the way, and the program; the packages above can be imported."""
    for name, (module, source, _) in SERVERS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / f"{module}.py").write_text(source)

    def start(way, program):
        (tmp_path / "program.py").write_text(program)
        before, variables = WAYS[way]
        return completed(
            [sys.executable, *before, str(tmp_path / "program.py")],
            env=environment({"PYTHONPATH": str(tmp_path), **variables}),
        )

    return start


def serving(name):
    module, _, call = SERVERS[name]
    return f"from {name}.{module} import *\n{call}\n"


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("way", WAYS)
def test_the_log_says_once_that_a_server_forks_nothing(start, way, name):
    done = start(way, serving(name) * 2)
    assert done.stdout == "serves\n" * 2
    assert done.stderr.count(SAID.format(name)) == 1 and done.stderr.count("\n") == 1
    assert "`pasture run " in done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_is_not_started_is_not_named(start, way):
    done = start(way, "".join(f"import {name}.{SERVERS[name][0]}\n" for name in SERVERS))
    assert done.stderr == (NOTHING if way == "run" else "")


@pytest.mark.parametrize("way", WAYS)
def test_a_server_on_the_side_is_not_named(start, way):
    aside = f"threading.Thread(target=lambda: exec({serving('waitress')!r})).start()"
    done = start(way, f"import threading\n{aside}")
    assert done.stdout == "serves\n" and "one process" not in done.stderr


FORKING = """
import multiprocessing, sys

def serve():
    exec({serving!r})

if __name__ == "__main__":
    import waitress.server
    process = multiprocessing.get_context("fork").Process(target=serve)
    process.start()
    process.join()
    serve()
"""


@pytest.mark.parametrize("way", WAYS)
def test_workers_of_a_program_that_serve_by_themselves_are_not_named(start, way):
    done = start(way, FORKING.format(serving=serving("waitress")))
    assert done.stdout == "serves\n" * 2
    assert "pasture: policy seal" in done.stderr and done.stderr.count("\n") == 1


FORKSERVER = """
import multiprocessing

if __name__ == "__main__":
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        print(pool.apply(abs, (-1,)))
"""


def test_a_program_is_said_to_have_forked_nothing_at_its_exit(start):
    assert start("run", "import subprocess; subprocess.run(['true'])").stderr == NOTHING
    assert start("run", "import os; os.fork() or os._exit(0)").stderr.count("\n") == 1
    assert NOTHING not in start("run", FORKSERVER).stderr
    assert start("variable", "pass").stderr == ""
