"""An unpacked interpreter works as an installed one does; runs on such interpreters only."""

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(sys.base_prefix).parent
pytestmark = pytest.mark.skipif(
    not (ROOT / "version").exists() or Path(sys.base_prefix).name != "usr",
    reason="this interpreter was not unpacked by tools/interpreters",
)

EXTENSION = """\
#include <Python.h>
#include "internal/pycore_gc.h"

static PyObject *
head_bytes(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromSize_t(sizeof(PyGC_Head));
}

static PyMethodDef methods[] = {{"head_bytes", head_bytes, METH_NOARGS, NULL}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tiny", NULL, -1, methods};

PyMODINIT_FUNC
PyInit_tiny(void)
{
    return PyModule_Create(&definition);
}
"""


@pytest.mark.parametrize(
    "module", ["bz2", "ctypes", "curses", "decimal", "lzma", "readline", "sqlite3", "ssl", "uuid"]
)
def test_modules_over_c_libraries_load_those_of_the_root(module: str) -> None:
    program = f"import {module}; print(open('/proc/self/maps').read())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    libraries = {line.split()[-1] for line in done.stdout.splitlines() if ".so" in line}
    strangers = {path for path in libraries if not path.startswith(str(ROOT))}
    assert {Path(path).name for path in libraries} >= {"libc.so.6", "libm.so.6"}
    assert not {path for path in strangers if "site-packages" not in path}


def test_sysconfig_names_headers_that_are_there() -> None:
    include = Path(sysconfig.get_path("include"))
    assert include.is_relative_to(ROOT)
    assert (include / "internal" / "pycore_gc.h").exists()
    assert sysconfig.get_config_var("INCLUDEPY") == str(include)


def test_an_extension_with_internal_headers_builds_and_loads(tmp_path: Path) -> None:
    source = tmp_path / "tiny.c"
    source.write_text(EXTENSION)
    library = tmp_path / f"tiny{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = sysconfig.get_config_var("CC").split()
    include = sysconfig.get_path("include")
    flags = ["-DPy_BUILD_CORE_MODULE", "-fPIC", "-shared", f"-I{include}"]
    subprocess.run([*compiler, *flags, source, "-o", library], check=True)
    spec = importlib.util.spec_from_file_location("tiny", library)
    assert spec is not None and spec.loader is not None
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    assert tiny.head_bytes() == 16
