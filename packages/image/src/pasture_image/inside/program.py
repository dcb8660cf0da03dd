"""What stands for the program in an interpreter: arguments, its folder, and the module `__main__`.

Modules keep these when they are loaded (`def main(args=sys.argv)`, `import __main__`), so a program
gets the very objects that were there then, and they are filled again. While modules are loaded they
are as empty as where a program is `-c "import ..."`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from pasture import main_program
from pasture.errors import ImageFailed
from pasture.interpreter import native

LOADING = ["-c"]

changed: dict[str, str | None] = {}
"""Variables that loading has set or deleted (None)."""

set_in_c: dict[str, str] = {}
"""What code in C has set, without `os.environ`."""

_argv = sys.argv
_held = (0, 0)
_path: tuple[str, ...] = ()
_in_front = 0
_adds_directory = False
_names: frozenset[str] = frozenset()
_is_main_kept = True
_main_names: tuple[str, ...] = ()
_folders: list[tuple[dict[str, Any], str]] = []
"""Names of modules for the working directory, with the dictionary of each."""
questions: Sequence[str] = ()
"""Texts of which modules have asked whether they are an argument."""


def names_of(module: ModuleType) -> dict[str, Any]:
    """A module's dictionary, whatever a class of its own says that it is (as py's does)."""
    slot: Any = vars(ModuleType)["__dict__"]
    found: dict[str, Any] = slot.__get__(module)
    return found


def begin_loading() -> None:
    """From now on modules are loaded; in the process that was started for that."""
    global _held, _names, _path
    if not sys.flags.safe_path and sys.path and sys.path[0] == "":
        del sys.path[0]  # `-c` has put the current directory first
    _path = tuple(sys.path)
    _argv[:] = LOADING
    sys.orig_argv[-2:] = [""]
    _names = frozenset(sys.modules["__main__"].__dict__)
    _held = _references()


def require_unchanged(module: str) -> None:
    """Raise ImageFailed if a module has changed the arguments: what would it make of others?"""
    if sys.argv is not _argv or _argv != LOADING:
        raise ImageFailed(f"{module} changes sys.argv while it is loaded", hint="do not preload it")


def end_loading(here: str) -> None:
    """All modules are loaded.

    Args:
        here: the working directory of the load.

    Raises:
        ImageFailed: the interpreter's own copy of the arguments, which code in C reads, is not
            found; or a request has changed them.
    """
    global _is_main_kept, _in_front, _adds_directory, _main_names
    require_unchanged("a request of the warm-up")
    _folders.extend(
        (names_of(module), name)
        for module in list(sys.modules.values())
        if issubclass(type(module), ModuleType)
        for name, value in list(names_of(module).items())
        if type(value) is str and value == here
    )
    if not native().find_arguments():
        raise ImageFailed("the arguments that Py_GetArgcArgv() gives were not found")
    _main_names = main_names()
    _is_main_kept = _references() != _held or sys.modules["__main__"].__dict__.keys() != _names
    _in_front = sys.path.index(_path[0]) if _path and _path[0] in sys.path else 0
    _adds_directory = here in sys.path[:_in_front]  # as Celery does for Django
    sys.path[:_in_front] = [one for one in sys.path[:_in_front] if one != here]
    _in_front = sys.path.index(_path[0]) if _in_front else 0
    for names, name in _folders:
        names[name] = ""  # until it is a program's


def begin_program(argv: list[str], orig_argv: list[str]) -> bool:
    """From now on a program is to run. Where a copy has come to life.

    Returns:
        Whether the interpreter still has to put the program's folder first on the search path. What
        modules have put there when they were loaded would precede it.

    Raises:
        RuntimeError: a module would have found other arguments.
    """
    for text in questions:
        if (text in argv) != (text in LOADING):
            raise RuntimeError(f"a module has asked for the argument {text}")
    _argv[:] = argv
    sys.orig_argv[:] = orig_argv
    for names, name in _folders:
        names[name] = os.getcwd()  # noqa: PTH109
    if not _is_main_kept:  # a new one is no object of the image: it can go when the program ends
        sys.modules.update(dict.fromkeys(_main_names, main_program.made_module()))
    folder = None if sys.flags.safe_path else _folder(argv[0])
    if sys.flags.safe_path or not (_in_front or _adds_directory):
        return True
    if _adds_directory and folder and (here := _folder("-m")) not in (None, folder):
        sys.path.insert(_in_front, here)
    if folder is not None:
        sys.path.insert(_in_front, folder)
    return False


def _folder(program: str) -> str | None:
    """As Python/pathconfig.c, _PyPathConfig_ComputeSysPath0."""
    if program == "-m":
        try:
            return os.getcwd()  # noqa: PTH109
        except OSError:
            return None
    if program in ("-c", "-", ""):
        return ""
    return os.path.dirname(os.path.realpath(program))  # noqa: PTH120


def main_names() -> tuple[str, ...]:
    """Of modules that are the program's: multiprocessing has another name for it."""
    main = sys.modules["__main__"]
    return tuple(name for name, module in sys.modules.items() if module is main)


def _references() -> tuple[int, int]:
    """To the module, but for those of `sys.modules`, and to its names."""
    main = sys.modules["__main__"]
    return sys.getrefcount(main) - len(main_names()), sys.getrefcount(main.__dict__)
