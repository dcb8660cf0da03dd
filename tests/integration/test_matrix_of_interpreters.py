"""tools/test-matrix on a small repository: what its summary names as failed, and as unsteady."""

import argparse
import importlib.machinery
import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
from running import completed

pytestmark = pytest.mark.once

TOOL = Path(__file__).parents[2] / "tools" / "test-matrix"

MAKEFILE = """
.venvs/3.99/.stamp:
\tfalse
.venvs/%/.stamp:
\tmkdir -p $(@D)/bin
\tprintf '#!/bin/sh\\nexec {python} "$$@"\\n' > $(@D)/bin/python
\tchmod +x $(@D)/bin/python
"""
INTERPRETERS = "#!/bin/sh\ntest $2 != 3.98\n"  # all but this one can be had

UNSTEADY = """
from pathlib import Path
import pytest
@pytest.mark.parametrize("server", ["gunicorn", "uwsgi"])
def test_meets_its_deadline(server):
    met = Path(f"{server}.met")
    if server == "uwsgi" and not met.exists():
        met.touch()
        assert False, "too late"
"""
BROKEN = "def test_is_broken():\n    assert False\n"
SOUND = "def test_is_sound():\n    pass\n"


@pytest.fixture
def matrix(tmp_path):
    """Run the tool on tests of a repository: dict of file name to source."""

    def run(tests, *words):
        for folder in (
            "tools",
            "tests/native",
            "packages/lab/tests",
            "packages/pytest-pasture/tests",
        ):
            (tmp_path / folder).mkdir(parents=True)
        shutil.copy(TOOL, tmp_path / "tools")
        (tmp_path / "tools" / "interpreters").write_text(INTERPRETERS)
        (tmp_path / "tools" / "interpreters").chmod(0o755)
        (tmp_path / "Makefile").write_text(MAKEFILE.format(python=sys.executable))
        plug_ins = "-p xdist.plugin -p pytest_pasture.plugin"
        (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {plug_ins}\n")
        for name, source in tests.items():
            (tmp_path / name).write_text(source)
        command = [sys.executable, str(tmp_path / "tools" / "test-matrix"), *words]
        env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = completed(command, env=env)
        print(done.stdout, done.stderr)
        return done.returncode, done.stdout[done.stdout.rindex("passed   failed") :]

    return run


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """The tool as a module, whose repository is an empty folder."""
    loader = importlib.machinery.SourceFileLoader("tool_test_matrix", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    monkeypatch.setitem(sys.modules, loader.name, module)
    loader.exec_module(module)
    monkeypatch.setattr(module, "REPOSITORY", tmp_path)
    monkeypatch.setattr(module, "UNSTEADY", tmp_path / "unsteady.toml")
    return module


NAME = "tests.test_server::test_meets_its_deadline"
LISTED = f'"{NAME}" = "uwsgi binds late"\n'


@pytest.mark.parametrize(("listed", "code"), [("", 1), (LISTED, 0)])
def test_a_test_that_passes_alone_fails_the_run_unless_it_is_listed(tool, listed, code):
    tool.UNSTEADY.write_text(listed)
    session = tool.Session("3.14", "3.14", "", ())
    status = tool.verdict([f"{NAME}[uwsgi]"])
    assert tool.exit_code([tool.Outcome(session, status)], all_required=True) == code


MARKED = """
import pytest
@pytest.mark.interpreter
def test_depends_on_the_interpreter(): pass
def test_does_not(): pass
"""
MARKS_A_FOLDER = """
import pytest
def pytest_collection_modifyitems(items):
    for item in items:
        if "native" in item.path.parts:
            item.add_marker(pytest.mark.interpreter)
"""


def test_other_interpreters_than_the_first_run_marked_tests(matrix):
    tests = {
        "tests/test_marked.py": MARKED,
        "tests/test_unmarked.py": "raise RuntimeError('it has no marked test, and is not read')",
        "tests/native/test_heap.py": SOUND,
        "conftest.py": MARKS_A_FOLDER,
    }
    code, summary = matrix(tests, "3.13")
    assert code == 0
    [row] = [line.split() for line in summary.splitlines() if line.startswith("CPython")]
    assert row[2] == "2", "the one that is marked, and that of the folder"


@pytest.mark.parametrize(("whole", "sessions"), [(False, ["3.13"]), (True, ["3.13", "3.13-check"])])
def test_other_interpreters_than_the_first_have_the_check_build_only_in_the_whole(
    tool, whole, sessions
):
    words = argparse.Namespace(minors=["3.13"], whole=whole, check_build_only=False, pytest=[])
    planned = tool.plan(words)
    assert [session.environment for session in planned] == sessions
    assert ("interpreter" in planned[0].words) == (not whole)


def test_a_test_that_fails_again_fails_the_run_and_is_distinguished_from_one_that_passes(matrix):
    """Sessions run side by side: each runs again what failed in it, and nothing else."""
    tests = {"tests/test_server.py": UNSTEADY, "tests/native/test_broken.py": BROKEN}
    code, summary = matrix(tests, "3.98", "3.14")
    assert code == 1
    rows = [line.split()[-1] for line in summary.splitlines() if line.startswith("CPython")]
    assert rows == ["ABSENT", "FAILED", "FAILED"]
    assert summary.count("\nfailed: tests.native.test_broken::test_is_broken (CPython") == 2
    assert "passed alone: tests.test_server::test_meets_its_deadline[uwsgi] (CPython" in summary
    assert summary.count("::") == 3
