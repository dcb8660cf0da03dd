"""Run by an interpreter: a JSON list of the types of its library that free their own objects.

Each is written in C, with a tp_dealloc that no base has: [name, whether it is seen to have an end].
"""

import contextlib
import ctypes
import importlib
import io
import json
import pkgutil
import sys
import warnings

from pasture._native import type_has_end

DEALLOC_AT = 48
"""PyTypeObject.tp_dealloc: behind a PyVarObject, tp_name, tp_basicsize and tp_itemsize."""

NOT_IMPORTED = {"antigravity", "this", "idlelib", "turtledemo", "turtle", "test", "__main__"}


class Class: ...


def dealloc(kind: type) -> int | None:
    return ctypes.c_void_p.from_address(id(kind) + DEALLOC_AT).value


def modules() -> list[str]:
    """Of the standard library; below packages those with an extension, or what imports one."""
    names = [name for name in sys.stdlib_module_names if name not in NOT_IMPORTED]
    for package in ("multiprocessing", "concurrent", "compression", "ctypes", "xml", "asyncio"):
        with contextlib.suppress(ImportError):
            path = importlib.import_module(package).__path__
            names += [one.name for one in pkgutil.walk_packages(path, f"{package}.")]
    return names


def import_all() -> None:
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()):
        for name in modules():
            # Some are of another system, or take what this build lacks.
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def all_types() -> list[type]:
    found, waiting = {}, [object]
    while waiting:
        kind = waiting.pop()
        if id(kind) not in found:
            found[id(kind)] = kind
            waiting += type.__subclasses__(kind)
    return list(found.values())


def frees_by_itself(kind: type) -> bool:
    inherited = {dealloc(Class), dealloc(object)}
    bases = {dealloc(base) for base in kind.__mro__[1:]}
    return dealloc(kind) not in inherited | bases and kind is not Class


def main() -> None:
    import_all()
    own = filter(frees_by_itself, all_types())
    rows = [(f"{one.__module__}.{one.__qualname__}", type_has_end(one)) for one in own]
    json.dump(sorted(rows), sys.stdout)


if __name__ == "__main__":
    main()
