"""What modules keep of the process that loads them: values that differ after a second load.

Each of the two processes writes the values that are reached from modules down, by their path, and a
third, forked from the first, compares: none of that comes into an image. Both were forked from one
process, so addresses and hashes are alike but for what follows from other values. A number that
differs is none where each process has memory at its own.
"""

from __future__ import annotations

import functools
import gc
import marshal
import os
import re
import sys
import types
import zlib
from bisect import bisect
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from importlib.machinery import FileFinder, NamespaceLoader, PathFinder
from pathlib import Path
from typing import Any, TypeVar

from pasture_image.inside.names import UNKNOWN, Name
from pasture_image.inside.program import names_of, search_paths

_LEAVES = (str, bytes, int, float, complex, bool)
_UNKNOWN = frozenset(UNKNOWN)
_ADDRESS = re.compile("[0-9](?:(?<=0)x[0-9a-f]{6,}|[0-9]{7,})")  # a class first is found fast
_OF_FUNCTIONS = (".__defaults__", ".__kwdefaults__", ".__closure__", "")
_KEYED = (dict, set, frozenset)
_MAX_CHARACTERS = 300
_NOT_OF_MODULES = frozenset(
    ("__builtins__", "__cached__", "__weakref__", "__dict__", "__mro__", "__annotations_cache__")
)
_OWN = (
    *("pasture", "pasture_image", "pasture_auto", "__main__", "__mp_main__", "sys", "posix", "gc"),
    *("os", "builtins", "signal", "random", "faulthandler"),
    *("importlib", "_frozen_importlib", "_frozen_importlib_external", "zipimport", "linecache"),
)
"""Modules whose state is each program's own."""
RENEWED = (
    *("gunicorn.config.", "platform._uname_cache", "celery.utils.nodenames."),
    "psutil._last_",
    *("logging._startTime", "threading._main_thread", "time.", "tempfile._name_sequence"),
    *("multiprocessing.process.", "billiard.process."),
    *("multiprocessing.util.MAXFD", "billiard.util.MAXFD", "uuid._"),
)
"""Of others: what `begin` renews."""
_Found = TypeVar("_Found")
Ranges = tuple[list[int], list[int]]
"""Where memory begins, and ends."""
_OPAQUE = (
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.FrameType,
    types.ModuleType,
    types.CodeType,
    type(NamespaceLoader("", [], lambda *_: None)._path),  # type: ignore[attr-defined]
)
"""The last is the path of a namespace package, found again where the search path changes."""


def _once(function: Callable[[type], _Found]) -> Callable[[type], _Found]:
    """For each class once: not by its hash, which is its metaclass's."""
    known: dict[int, tuple[type, _Found]] = {}

    def of(kind: type) -> _Found:
        if id(kind) not in known:
            known[id(kind)] = kind, function(kind)
        return known[id(kind)][1]

    return of


def write(file: int, marks: Iterable[str], folder: str) -> bool:
    """Write this process's values, with its number, where its memory is, and where it has loaded.

    Returns:
        Whether a mark is in one of them, in any case.
    """
    found = values()
    data = marshal.dumps((os.getpid(), folder, mapped(), found))
    with os.fdopen(file, "wb", closefd=False) as stream:
        stream.write(data)
    texts = (f"{value}".lower() for value in found.values() if type(value) in (str, bytes))
    return any(mark in text for text in texts for mark in marks)


def read(file: int) -> Any:
    """What another process has written: its number, folder, memory, and values."""
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        return marshal.loads(stream.read())


def differing(own: Mapping[str, Any], others: Mapping[str, Any], there: Ranges) -> set[str]:
    """Paths on which this process has another value than one that has memory `there`."""
    here = mapped()
    return {
        path
        for path, value in own.items()
        if (other := others.get(path, value)) is not value
        and (type(other) is not type(value) or other != value or type(value) is float)
        and repr(other) != repr(value)
        and _without_addresses(other, there) != _without_addresses(value, here)
        and not path.startswith(RENEWED)
        and not path.endswith("._native_id")
    }


def notes(
    own: Mapping[str, Any], written: Any, differ: Set[str], made: Collection[str]
) -> list[tuple[str, str]]:
    """Of paths on which another process has written something else: code of the note, and whose.

    Args:
        made: paths of files and folders that this process has made.
    """
    pid, folder, _, others = written
    found: dict[tuple[str, str], None] = {}
    for path in sorted(differ & own.keys() & others.keys()):
        found[_code(own[path], others[path], pid, folder, made), owner(path)] = None
    said = {owner for code, owner in found if code != "differs"}
    return [(code, owner) for code, owner in found if code != "differs" or owner not in said]


def of_host(own: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Notes of values that have the host's name in them."""
    is_there = re.compile(rf"\b{re.escape(os.uname().nodename)}\b").search
    return [
        ("host", owner(path))
        for path, value in own.items()
        if type(value) is str and is_there(value) and not path.startswith(RENEWED)
    ]


def _code(value: Any, other: Any, pid: int, folder: str, made: Collection[str]) -> str:
    text, of_other = (
        os.fsdecode(one) if type(one) is bytes else str(one) for one in (value, other)
    )
    if type(other) in (str, bytes) and folder.split("-")[-2] in of_other.lower():
        return "folder"
    if any(path in text and path not in of_other for path in made):
        return "made"
    texts = re.findall(r"\d+", f"{value!r}"), re.findall(r"\d+", f"{other!r}")
    return "pid" if str(os.getppid()) in texts[0] and str(pid) in texts[1] else "differs"


def owner(path: str) -> str:
    """The module, and its attribute."""
    module = path
    while module and module not in sys.modules:
        module = module[: max(0, *map(module.rfind, ".[~{"))]
    attribute = re.match(r"\.?\w*", path[len(module) :])
    return module + (attribute[0] if attribute else "") if module else path


def values() -> dict[str, Any]:
    """Texts and numbers by the path on which each is reached first."""
    gc.collect()  # garbage goes by chance, and clears what is reached
    gc.disable()
    found: dict[str, Any] = {}
    hidden: tuple[object, ...] = (
        *(os.environ, os.environb, sys.modules, sys.argv, found),
        *(FileFinder, PathFinder),  # they are watched (`recording`)
        *search_paths(),
    )
    seen = {id(one) for one in hidden}
    held: list[Any] = []  # so that no other object gets its address
    todo: deque[tuple[Any, str]] = deque()
    for name, module in sorted(sys.modules.items()):
        if issubclass(type(module), types.ModuleType) and name.partition(".")[0] not in _OWN:
            seen.add(id(module))
            todo.append((names_of(module), name))
    while todo:
        one, path = todo.popleft()
        if issubclass(type(one), _KEYED):
            found[_new(f"{path}{{}}", found)] = _keys(one)
        for label, child in _children(one):
            kind = type(child)
            if kind is Name:
                child, kind = str.__str__(child), str
            if kind in _LEAVES or child is None:
                at = path + label
                if at in found:
                    at = _new(at, found)
                found[at] = _short(child) if kind is str and len(child) > _MAX_CHARACTERS else child
            elif id(child) not in seen and not issubclass(kind, _OPAQUE):
                seen.add(id(child))
                held.append(child)
                todo.append((child, path + label))
                if (written := _writer(kind)) is not None:
                    found[_new(path + label, found)] = str(written(child))
    return found


def _new(path: str, found: Collection[str]) -> str:
    """A package may have something else by the name of one of its modules."""
    while path in found:
        path += "'"
    return path


def _keys(one: Any) -> tuple[Any, ...]:
    plain = next(kind for kind in _KEYED if issubclass(type(one), kind))
    keys = [k for k in map(_usual, plain.__iter__(one)) if type(k) in _LEAVES and k not in _UNKNOWN]
    if any(type(key) is str and len(key) > _MAX_CHARACTERS for key in keys):
        keys = [*map(_short, keys)]
    try:
        return tuple(sorted(keys))
    except TypeError:
        return tuple(sorted(keys, key=repr))


def _usual(one: Any) -> Any:
    """A name of a variable that records how it is asked, as the text that it is elsewhere."""
    return str.__str__(one) if type(one) is Name else one


@_once
def _writer(kind: type) -> Any:
    """Of a text or number of a class, of a time, of an array."""
    for base in kind.__mro__:  # a class of others may write itself as it likes
        if base in _LEAVES or base.__module__ == "datetime":
            return base.__repr__
    return zlib.crc32 if kind.__module__ == "array" or kind is bytearray else None


def _short(value: Any) -> Any:
    if type(value) is not str or len(value) <= _MAX_CHARACTERS:
        return value
    rest = zlib.crc32(_ADDRESS.sub("", value).encode("utf-8", "replace"))
    return f"{value[:_MAX_CHARACTERS]} {rest:x}"


def _without_addresses(value: Any, mapped: Ranges) -> Any:
    if type(value) is str:
        return _ADDRESS.sub(lambda found: _plain(found[0], _number(found[0]), mapped), value)
    if type(value) is tuple:
        return sorted(repr(_without_addresses(one, mapped)) for one in value)
    return _plain(repr(value), value, mapped) if type(value) is int else repr(value)


def _number(text: str) -> int:
    return int(text, 16 if "x" in text else 10)


def _plain(text: str, number: int, mapped: Ranges) -> str:
    starts, ends = mapped
    at = bisect(starts, number) - 1
    return "0x" if at >= 0 and number < ends[at] else text


def mapped() -> Ranges:
    lines = Path("/proc/self/maps").read_text().splitlines()
    pairs = [[int(number, 16) for number in line.split()[0].split("-")] for line in lines]
    return [start for start, _ in pairs], [end for _, end in pairs]


def _children(one: Any) -> Iterable[tuple[str, Any]]:
    kind = type(one)
    if issubclass(kind, dict):
        return _children_of_dict(dict.items(one))
    if issubclass(kind, (list, tuple)):
        plain = list if issubclass(kind, list) else tuple
        return [(f"[{at}]", value) for at, value in enumerate(plain.__iter__(one))]
    if kind is types.FunctionType:
        held = one.__defaults__, one.__kwdefaults__, one.__closure__, one.__dict__
        return [pair for pair in zip(_OF_FUNCTIONS, held, strict=True) if pair[1]]
    if issubclass(kind, type):
        return _children_of_dict(_namespace(one))
    if kind is types.CellType or kind is types.MethodType or kind is functools.partial:
        return [(f"~{at}", value) for at, value in enumerate(gc.get_referents(one))]
    return () if issubclass(kind, (set, frozenset)) else _attributes(one, kind)


def _children_of_dict(items: Iterable[tuple[Any, Any]]) -> list[tuple[str, Any]]:
    return [
        (f".{key}" if type(key) is str else f"[{key!r}]", value)
        for name, value in list(items)
        for key in (str.__str__(name) if type(name) is Name else name,)
        if type(key) in _LEAVES and key not in _NOT_OF_MODULES
    ]


def _namespace(kind: Any) -> Iterable[tuple[str, Any]]:
    found: Mapping[str, Any] | None = type.__dict__["__dict__"].__get__(kind)
    return found.items() if found is not None else ()  # of a type in C that is not ready


@_once
def _slots(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (f".{name}", slot)
        for base in type.__dict__["__mro__"].__get__(kind)
        for name, slot in _namespace(base)
        if type(slot) is types.MemberDescriptorType and not name.startswith("__")
    )


def _attributes(one: Any, kind: type) -> Iterator[tuple[str, Any]]:
    with suppress(Exception):
        yield "", object.__getattribute__(one, "__dict__")
    for label, slot in _slots(kind):
        with suppress(Exception):
            yield label, slot.__get__(one)
