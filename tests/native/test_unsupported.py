"""The extension on an interpreter that it does not know: it must still build, and say why."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src/native"

LOAD = """
    from importlib.util import module_from_spec, spec_from_file_location
    spec = spec_from_file_location("pasture._native", {file!r})
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    print(module.UNSUPPORTED)
    print([name for name, value in vars(module).items() if callable(value) and name[0] != "_"])
"""


@pytest.mark.once
def test_on_an_unsupported_interpreter_the_extension_builds_and_says_why(tmp_path, run_program):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    file = tmp_path / "unsupported.so"
    command = [compiler, "-shared", "-fPIC", "-DPYPY_VERSION", "-I" + sysconfig.get_path("include")]
    built = subprocess.run(
        [*command, "-o", file, *SOURCES.rglob("*.c")], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    out = run_program(LOAD.format(file=str(file)))
    assert out == "PyPy has no reference counts and a collector of its own\n[]\n"
