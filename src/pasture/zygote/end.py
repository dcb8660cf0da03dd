"""The end of a process that was served: what its program made is finalized, the image is not.

CPython ends by clearing all modules, which writes to everything that is shared. Here only modules
that came after the image are cleared, in CPython's order, so that their objects' `__del__` and weak
references' callbacks run as ever (CPython 3.14 Python/pylifecycle.c, finalize_modules).
"""

from __future__ import annotations

import gc
import sys
import weakref
from types import ModuleType

from pasture.sealing.interpreter import native

_of_image: frozenset[str] = frozenset()
_CLEARED = ("path", "argv", "ps1", "ps2", "path_hooks", "path_importer_cache", "meta_path")
_EXCEPTIONS = ("last_exc", "last_type", "last_value", "last_traceback")


def keep_modules() -> None:
    """Modules that are loaded now belong to the image."""
    global _of_image
    _of_image = frozenset(sys.modules) - {"__main__"}


def finish() -> None:
    """Clear what came later. As the last thing before output is flushed and the process ends."""
    if native().python_threads() > 1:
        return  # a daemon thread: nothing may be taken away from it
    later = [name for name in list(sys.modules) if name not in _of_image]
    for name in (*_CLEARED, *_EXCEPTIONS):
        if hasattr(sys, name):
            setattr(sys, name, None)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__", None))
    left = _remove(later)
    gc.collect()
    for reference in reversed(left):
        module = reference()
        if module is not None:
            _clear(module)


def _remove(names: list[str]) -> list[weakref.ref[ModuleType]]:
    left = []
    for name in names:
        module = sys.modules.pop(name)
        if isinstance(module, ModuleType):
            left.append(weakref.ref(module))
        del module
    return left


def _clear(module: ModuleType) -> None:
    """As Objects/moduleobject.c, _PyModule_Clear: first names with one underscore."""
    namespace = module.__dict__
    for private in (True, False):
        for name, value in list(namespace.items()):
            is_private = name.startswith("_") and not name.startswith("__")
            if value is not None and name != "__builtins__" and (is_private or not private):
                del value
                namespace[name] = None
