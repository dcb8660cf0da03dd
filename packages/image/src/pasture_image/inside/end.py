"""The end of a program out of an image: what it made is finalized, the image is not.

CPython ends by clearing all modules, which writes to everything that is shared. Here only modules
that came after the image are cleared, in CPython's order, so that their objects' `__del__` and weak
references' callbacks run as usual (CPython 3.14 Python/pylifecycle.c, Py_FinalizeEx,
finalize_modules, finalize_interp_clear).
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from _weakref import ref
from collections.abc import Callable
from contextlib import suppress
from types import BuiltinFunctionType, ModuleType
from typing import Any

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native
from pasture.sealing import exit, gc_settings
from pasture_image.inside import program

_of_image: frozenset[str] = frozenset()
_pid = 0
_CLEARED = ("path", "argv", "ps1", "ps2", "path_hooks", "path_importer_cache", "meta_path")
_EXCEPTIONS = ("last_exc", "last_type", "last_value", "last_traceback")
_MARK = "__held__"


def keep_modules() -> None:
    """Modules that are loaded now belong to the image."""
    global _of_image
    _of_image = frozenset(sys.modules).difference(program.main_names())


def arm() -> None:
    """Have programs, which the interpreter takes for children, collect and end as sealed ones."""
    os.register_at_fork(after_in_child=_take_steps)


def _take_steps() -> None:
    gc_settings.run_full_out_of_line()
    exit.flush_open_files_too()
    exit.install()


def begin_program() -> None:
    """This process is the program, and no child of it."""
    global _pid
    _pid = os.getpid()
    exit.take_over_files()


def finish(flush_files: Callable[[], None]) -> bool:
    """Clear what came later. As the last thing before output is flushed and the process ends.

    Returns:
        Whether that was done. If not, the interpreter has to finalize as usual: a daemon thread
        runs, another interpreter is left, output cannot be written, or the program was sealed
        itself, and what it holds would not be collected.
    """
    is_sealed = exit.sealed_in == os.getpid() == _pid
    if is_sealed or native().python_threads() > 1 or _interpreters() > 1 or not _flushes():
        return False
    flush_files()  # a collection may close what lies below a file's buffer
    native().begin_finalizing()
    _clear_all()
    return True


def _flushes() -> bool:
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException:
            return False  # the interpreter finds the same, and says so
    return True


def _interpreters() -> int:
    module = sys.modules.get("_interpreters") or sys.modules.get("_xxsubinterpreters")
    return len(module.list_all()) if module is not None else 1


def _clear_all() -> None:
    _forget_exit_functions()
    native().watch_collections(False)  # the built-in collection is quicker where no memory matters
    if gc.isenabled():
        gc.collect()  # what is garbage by now has all its modules
    callbacks, gc.callbacks[:] = gc.callbacks[:], []  # later collections call none
    later = [name for name in list(sys.modules) if name not in _of_image]
    for name in (*_CLEARED, *_EXCEPTIONS):
        if hasattr(sys, name):
            setattr(sys, name, None)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, _usable(getattr(sys, f"__{name}__", None)))
    left = _remove(later)
    gc.collect()
    if any(held() is not None for _, held in left):
        with suppress(NotImplementedError, UnsupportedInterpreter):
            native().finalize_before_modules(True)
    for reference, _ in reversed(left):
        if (module := reference()) is not None:
            _clear(module)
    gc.collect()  # cycles that modules held
    del callbacks


def _forget_exit_functions() -> None:
    """They have run, but for the one that leads here: the interpreter would forget them now."""
    atexit._clear()
    if sys.version_info < (3, 14):
        return
    for generation in range(3):  # it goes through a list of its own
        for one in gc.get_objects(generation):
            last = one[-1] if type(one) is list and one else None
            if type(last) is tuple and last and type(last[0]) is BuiltinFunctionType:
                if last[0].__self__ is exit._at_end:
                    del one[:-1]
                    return


def _usable(stream: Any) -> Any:
    """None in the place of a stream that has been detached: the end would fail to flush it."""
    try:
        return stream if getattr(stream, "buffer", stream) is not None else None
    except ValueError:
        return None


def _remove(names: list[str]) -> list[tuple[ref[ModuleType], ref[set[int]]]]:
    """Modules, and what lies among the names of each and goes with them."""
    left = []
    for name in names:
        module = sys.modules.pop(name)
        if issubclass(type(module), ModuleType):  # `isinstance` would run code of a proxy
            program.names_of(module)[_MARK] = held = set[int]()
            left.append((ref(module), ref(held)))
            del held
        del module
    return left


def _clear(module: ModuleType) -> None:
    """As Objects/moduleobject.c, _PyModule_Clear: first names with one underscore."""
    namespace = program.names_of(module)
    for private in (True, False):
        for name in list(namespace):
            value = namespace.get(name)
            is_private = name.startswith("_") and not name.startswith("__")
            if value is not None and name != "__builtins__" and (is_private or not private):
                del value
                namespace[name] = None


# What warns meanwhile has no place, as at the interpreter's own end: warnings skip such frames.
_of_end: tuple[Any, ...] = (exit._at_end, exit._at_end.__wrapped__)  # type: ignore[attr-defined]
for _function in (*_of_end, finish, _clear_all, _forget_exit_functions, _remove, _clear):
    _function.__code__ = _function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
