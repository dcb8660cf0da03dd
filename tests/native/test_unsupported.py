"""The extension on an interpreter that it does not know: it must still build, and say why."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from pasture import _native

CHECK_BUILD = hasattr(_native, "fail_scratch_after")
SOURCES = Path(__file__).parents[2] / "src/native"
COMMON = SOURCES / "cpython/cpython.h"
APART = SOURCES / "seal/specialize.c"
"""Asks CPython's headers for more than the others do."""
HEADERS = Path(sysconfig.get_path("include"))

LOAD = """
    from importlib.util import module_from_spec, spec_from_file_location
    spec = spec_from_file_location("pasture._native", {file!r})
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    print(module.UNSUPPORTED)
    print([name for name, value in vars(module).items() if callable(value) and name[0] != "_"])
"""


compiles = pytest.mark.skipif(
    CHECK_BUILD, reason="the same sources with the same options, whatever build is at hand"
)


def compile_all(folder: Path, *options: str, headers: Path = HEADERS, how: str = "-c") -> None:
    """Compile each source; CPython's headers are read once, and not for each of them."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    command = [compiler, "-std=c11", "-fPIC", "-DPy_BUILD_CORE_MODULE=1", *options]
    command += [f"-I{headers}", f"-I{HEADERS}"]  # a copy may refer to what is beside the original
    header = folder / "common.h"
    others = map(str, set(SOURCES.rglob("*.c")) - {APART})
    for words in (
        ["-x", "c-header", "-o", f"{header}.gch", str(COMMON)],
        [how, "-include", str(header), *others],
        [how, str(APART)],
    ):
        built = subprocess.run([*command, *words], capture_output=True, text=True, cwd=folder)
        assert built.returncode == 0, built.stderr


def build(folder: Path, *options: str, headers: Path = HEADERS) -> str:
    """The extension with these options and headers; its file."""
    compile_all(folder, *options, headers=headers)
    file = str(folder / "unsupported.so")
    subprocess.run(["cc", "-shared", "-o", file, *map(str, folder.glob("*.o"))], check=True)
    return file


@compiles
@pytest.mark.once
def test_on_an_unsupported_interpreter_the_extension_builds_and_says_why(tmp_path, run_program):
    out = run_program(LOAD.format(file=build(tmp_path, "-DPYPY_VERSION")))
    assert out == "PyPy has no reference counts and a collector of its own\n[]\n"


def headers_of(version: str, folder: Path) -> Path:
    """A copy of this interpreter's headers that says it is another version."""
    major, minor, patch = map(int, version.split("."))
    shutil.copytree(HEADERS, folder, symlinks=False)
    level = folder / "patchlevel.h"
    text = level.read_text()
    for name, value in (("MAJOR", major), ("MINOR", minor), ("MICRO", patch)):
        text = re.sub(rf"(#define PY_{name}_VERSION\s+)\d+", rf"\g<1>{value}", text)
    level.write_text(text)
    return folder


@compiles
@pytest.mark.once
@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("3.14.4", "install pasture on 3.14.5 or later"),
        ("3.16.0", "newer than pasture knows"),
    ],
)
def test_an_unsupported_release_builds_and_says_why(tmp_path, run_program, version, reason):
    file = build(tmp_path, headers=headers_of(version, tmp_path / "include"))
    assert reason in run_program(LOAD.format(file=file))


@compiles
@pytest.mark.once
@pytest.mark.parametrize("option", ["-DPy_GIL_DISABLED", "-DPy_TRACE_REFS", "-DPy_DEBUG"])
def test_the_extension_compiles_for_every_kind_of_build(tmp_path, option):
    options = ("-Werror=implicit-function-declaration", option)
    compile_all(tmp_path, *options, how="-fsyntax-only")


@pytest.mark.once
def test_the_extension_asks_the_linker_for_no_function_that_only_some_builds_have(run_program):
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm")
    out = run_program(f"""
        import subprocess
        command = [{nm!r}, "-D", "--undefined-only", _native.__file__]
        symbols = subprocess.run(command, capture_output=True, text=True).stdout
        print([name for name in symbols.split() if "Executor" in name or "Optimizer" in name])
    """)
    assert out == "[]\n"
