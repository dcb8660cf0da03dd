"""A new engine is a module and a row: all else that an engine has comes with them."""

import sys

import pytest
from running import completed, environment

from pasture import _native

pytestmark = pytest.mark.once

MODULE = '''
"""The engine's module, as it would lie in src/pasture/servers."""

from pasture.errors import UsageError
from pasture.servers.engine import Engine, installed

with installed("herd"):
    import herd_library


class Herd(Engine):
    name = "herd"

    def install(self):
        self.before(herd_library.Herd, "graze", lambda herd: herd)

    def check(self, started):
        if started.alone:
            raise UsageError("a herd of one does not fork", hint="leave --alone out")

    def command(self):
        return herd_library.main()


engine = Herd.switch_on()
'''

ROW = 'Row("herd", package="herd_library", installed_by="herd[all]")'

LIBRARY = """
import gc, os, sys

class Herd:
    def __init__(self, alone):
        self.alone = alone
    def graze(self):
        if not self.alone and os.fork() == 0:
            print("sealed" if gc.get_freeze_count() else "unsealed", flush=True)
            os._exit(0)
        if not self.alone:
            os.wait()
        return 7

def main():
    return Herd("--alone" in sys.argv).graze()
"""

ADDED = f"""
import pasture.servers
from pasture.servers import engines
from pasture.servers.engines import Row

pasture.servers.__path__.append({{folder!r}})
engines.ENGINES["herd"] = {ROW}
"""

needs_a_seal = pytest.mark.skipif(_native.UNSUPPORTED is not None, reason="nothing is sealed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")
    (folder / "servers").mkdir()
    (folder / "servers" / "herd.py").write_text(MODULE)
    (folder / "herd_library.py").write_text(LIBRARY)
    (folder / "sitecustomize.py").write_text(ADDED.format(folder=str(folder / "servers")))
    return folder


def run(folder, *words, **variables):
    return completed(
        [sys.executable, *words], env=environment({"PYTHONPATH": str(folder), **variables})
    )


@needs_a_seal
def test_pasture_run_seals_it_and_gives_its_exit_code(folder):
    done = run(folder, "-m", "pasture", "run", "herd")
    assert (done.returncode, done.stdout) == (7, "sealed\n"), done.stderr
    assert done.stderr.count("pasture: policy seal on ") == 1


@needs_a_seal
def test_its_import_is_the_switch(folder):
    program = "import pasture.servers.herd, herd_library; herd_library.main()"
    assert run(folder, "-c", program).stdout == "sealed\n"


def test_what_forks_nothing_is_refused_or_warned_of(folder):
    refused = run(folder, "-m", "pasture", "run", "herd", "--alone")
    assert refused.returncode == 2
    assert refused.stderr == "error: a herd of one does not fork\nhint: leave --alone out\n"
    program = "import pasture.servers.herd, herd_library; herd_library.main()"
    for variables, code in (({}, 0), ({"PASTURE_STRICT": "1"}, 2)):
        done = run(folder, "-c", program, "--alone", **variables)
        assert done.returncode == code
        assert "a herd of one does not fork" in done.stderr


def test_what_an_option_needs_is_in_its_row(folder):
    done = run(folder, "-m", "pasture", "run", "--max-uss", "100M", "herd")
    assert done.returncode == 2
    assert "herd has no way to replace a worker" in done.stderr


def test_without_its_library_both_ways_in_say_what_brings_it(folder):
    (folder / "herd_library.py").rename(folder / "away.py")
    try:
        by_command = run(folder, "-m", "pasture", "run", "herd").stderr
        by_import = run(folder, "-c", "import pasture.servers.herd").stderr
    finally:
        (folder / "away.py").rename(folder / "herd_library.py")
    assert by_command.endswith("hint: pip install 'herd[all]'\n")
    assert "MissingExtra: herd_library cannot be imported: No module named" in by_import
