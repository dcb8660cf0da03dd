"""What the memory of an interpreter was made of. In the builder, once modules are loaded.

Owns which files and which names in which folders count: each start compares them. A name
counts in each folder where its module was, or would have been, looked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from pasture_image.inside.times import FileTimes, file_times, standing

PATH_FILES = "*.pth"
"""In the place of a name: files of that kind count."""

_OF_NO_FOLDER = ("built-in", "frozen")


def files(mapped: Iterable[str]) -> tuple[FileTimes, ...]:
    """Files of modules and libraries, and archives, as they are now.

    Args:
        mapped: paths of files that lie in memory.
    """
    found = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    found |= {*mapped, *_libraries()}
    paths = {standing(path) for path in found if isinstance(path, str) and path[:1] == "/"}
    paths |= {path for path in map(standing, sys.path) if Path(path).is_file()}
    return tuple(file_times(path) for path in sorted(paths))


def folders(sought: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Names of modules by the folder in which they count; `name/` for a namespace package.

    Args:
        sought: top-level names that were looked for, found or not.
    """
    loaded: list[tuple[str, Any]] = list(sys.modules.items())
    modules: dict[str, ModuleType] = {n: module for n, module in loaded if _has_folder(module)}
    found: dict[str, set[str]] = {}
    top = {name for name in modules if "." not in name}
    others = {PATH_FILES, *sought} - sys.modules.keys()
    for folder in (path for path in sys.path if path[:1] == "/"):
        if not Path(standing(folder)).is_file():
            found.setdefault(folder, set()).update(_named(top, modules), others)
        top = {name for name in top if _folder_of(modules[name]) != folder}
    below: dict[str, set[str]] = {}
    for name in modules:
        below.setdefault(name.rpartition(".")[0], set()).add(name)
    for name, module in modules.items():
        for folder in _path(module):
            children = _named(below.get(name, ()), modules)
            found.setdefault(folder, set()).update(child.rpartition(".")[2] for child in children)
    return {folder: tuple(sorted(names)) for folder, names in found.items()}


def _has_folder(module: Any) -> bool:
    """Whether it is one that was looked for: programs put other objects among modules."""
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    return isinstance(module, ModuleType) and origin not in _OF_NO_FOLDER


def _path(module: ModuleType) -> list[str]:
    try:
        paths: list[Any] = list(module.__path__)
        return [path for path in paths if isinstance(path, str) and path[:1] == "/"]
    except (AttributeError, TypeError):
        return []


def _named(names: Iterable[str], modules: dict[str, ModuleType]) -> set[str]:
    return {f"{name}/" if _is_namespace(modules[name]) else name for name in names}


def _is_namespace(module: ModuleType) -> bool:
    return getattr(module, "__file__", None) is None and bool(_path(module))


def _folder_of(module: ModuleType) -> str | None:
    """The folder of the search path that a module was found in."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    folder, name = os.path.split(file)
    return os.path.split(folder)[0] if name.startswith("__init__.") else folder


def _libraries() -> list[str]:
    """Libraries in C by the paths that the linker took: a link may lead elsewhere tomorrow."""
    import ctypes

    class Entry(ctypes.Structure):
        _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))

    found: list[str] = []

    def note(entry: Any, _: int, __: int | None) -> int:
        found.append(os.fsdecode(entry.contents.name or b""))
        return 0

    pointer = ctypes.POINTER(Entry)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(kind(note), None)
    return found
