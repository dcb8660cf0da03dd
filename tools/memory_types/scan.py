"""Run by an interpreter with the modules to import: JSON of the types that free their own objects.

Of each: its tp_name, objects that the collector lists, bytes of one, whether it is on the list of
the seal, and whether it has tp_traverse.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import json
import pkgutil
import sys
import warnings
from collections import Counter
from pathlib import Path

from pasture import _native

NAME_AT, DEALLOC_AT, TRAVERSE_AT = 24, 48, 184
"""Of a PyTypeObject: tp_name, tp_dealloc and tp_traverse, in bytes."""

LEFT_OUT = ("test", "conftest", "__main__", "setup")


def slot(kind: type, at: int) -> int | None:
    return ctypes.c_void_p.from_address(id(kind) + at).value


def import_all(name: str) -> None:
    with contextlib.suppress(BaseException):  # of modules that miss another package
        module = importlib.import_module(name)
        for one in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
            if not any(part in one.name.rpartition(".")[2] for part in LEFT_OUT):
                import_all(one.name)


def all_types() -> list[type]:
    found: dict[int, type] = {}
    waiting: list[type] = [object]
    while waiting:
        kind = waiting.pop()
        if id(kind) not in found:
            found[id(kind)] = kind
            waiting += type.__subclasses__(kind)
    return list(found.values())


def libraries() -> list[tuple[int, int, str]]:
    with Path("/proc/self/maps").open() as lines:
        rows = [line.split() for line in lines]
    spans = [(row[0].split("-"), row[5]) for row in rows if len(row) > 5 and "x" in row[1]]
    return [(int(first, 16), int(end, 16), path) for (first, end), path in spans]


def main() -> None:
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()):
        for name in sys.argv[1:]:
            import_all(name)
    maps = libraries()
    interpreter = next(path for first, end, path in maps if first <= slot(object, DEALLOC_AT) < end)
    rows = [name for name, _ in _native.memory_types()]
    counts = Counter(map(type, gc.get_objects()))
    types, matched = [], set()
    for kind in all_types():
        dealloc = slot(kind, DEALLOC_AT) or 0
        path = next((path for first, end, path in maps if first <= dealloc < end), "")
        if path == interpreter or "/lib-dynload/" in path:
            continue
        name = ctypes.string_at(slot(kind, NAME_AT) or 0).decode(errors="replace")
        of_type = {
            row for row in rows if row == name or (row[-1] == "*" and name.startswith(row[:-1]))
        }
        matched |= of_type
        types.append(
            {
                "name": name,
                "objects": counts[kind],
                "bytes": kind.__basicsize__,
                "known": bool(of_type),
                "traverses": slot(kind, TRAVERSE_AT) is not None,
                "own": dealloc not in {slot(base, DEALLOC_AT) for base in kind.__mro__[1:]},
                "path": path,
            }
        )
    json.dump({"types": types, "rows": rows, "matched": sorted(matched)}, sys.stdout)


if __name__ == "__main__":
    main()
