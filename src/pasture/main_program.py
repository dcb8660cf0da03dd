"""A program as the interpreter's command line runs it, in an interpreter that runs already.

Owns the module `__main__` as it is before a program, and the call of the interpreter's own main
function, which finds no other frame below it, and ends the process.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import BuiltinImporter
from types import ModuleType

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native


def made_module() -> ModuleType:
    """`__main__` as a program finds it."""
    main = ModuleType("__main__")
    main.__loader__ = BuiltinImporter
    main.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    return main


def run(option: str, what: str, argv: list[str], *, needs_folder: bool = True) -> None:
    """Run a program, and end as the interpreter does. Returns only where that is not known.

    Args:
        option: `-c`, `-m`, `-` for standard input, or "" for a file.
        what: the code, or the name.
        argv: becomes `sys.argv`; the first is as the interpreter has it before it runs something.
        needs_folder: whether the program's folder is still to be put first on `sys.path`.
    """
    sys.argv[:] = argv
    try:
        run_main = native().run_main
    except UnsupportedInterpreter:
        _run_in_python(option, what)
        return
    run_main(
        sys.argv,
        sys.orig_argv,
        needs_folder,
        f"{what}\n" if option == "-c" else None,
        what if option == "-m" else None,
        absolute(what) if not option else None,
    )


def absolute(path: str) -> str:
    """As the interpreter names a program: nothing is resolved. Source: Python/fileutils.c,
    _Py_abspath."""
    try:
        return path if path.startswith("/") else f"{os.getcwd()}/{path}"  # noqa: PTH109
    except OSError:
        return path


def _run_in_python(option: str, what: str) -> None:
    """Where there is no extension: tracebacks begin with our frames."""
    import runpy

    sys.path.insert(0, "" if option else os.path.dirname(os.path.realpath(what)))  # noqa: PTH120
    if option == "-m":
        runpy._run_module_as_main(what)  # type: ignore[attr-defined]
    elif option == "-c":
        exec(compile(what, "<string>", "exec"), vars(sys.modules["__main__"]))
    else:
        runpy.run_path(what, run_name="__main__")
