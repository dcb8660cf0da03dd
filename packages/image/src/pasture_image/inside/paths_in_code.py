"""Paths in code that has run while modules were loaded: it may have compared a folder with them.

In a process that is thrown away. A path with a placeholder or a pattern (`/home/%s`, `/home/*`)
counts up to there. Not seen: paths in data, in code in C, and those put together from parts.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import CodeType
from typing import Any

from pasture_image.inside.renewed import is_plain

_OWN = ("pasture", "pasture_image")
_CO_OPTIMIZED = 1  # of functions: Include/cpython/code.h
_PLAIN = re.compile(r"\^?(/[\w/.+@-]*)")


def of(load: Callable[[], object]) -> list[str]:
    """Those of code that runs while a function does, and of modules that are there before."""
    before = tuple(sys.modules)
    texts: set[str] = set()
    seen: Any = None

    def started(code: CodeType, _offset: int = 0) -> Any:
        texts.update(_texts(code.co_consts))
        return seen

    if sys.version_info >= (3, 12):
        tool = next(number for number in range(6) if sys.monitoring.get_tool(number) is None)
        starts, seen = sys.monitoring.events.PY_START, sys.monitoring.DISABLE
        sys.monitoring.use_tool_id(tool, "pasture")
        sys.monitoring.register_callback(tool, starts, started)
        sys.monitoring.set_events(tool, starts)
        load()
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    else:
        import threading

        threading.setprofile(lambda frame, *_: started(frame.f_code))
        sys.setprofile(lambda frame, *_: started(frame.f_code))
        load()
        sys.setprofile(None)
        threading.setprofile(None)
    for name in before:
        if name.partition(".")[0] not in _OWN:
            texts.update(_texts([_code(name)]))
    found = {match[1] for text in texts if (match := _PLAIN.match(text))}
    return sorted(path for path in found if is_plain(path.rstrip("/")))


def _code(name: str) -> object:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    with suppress(Exception):  # of a loader of its own
        return spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    return None


def _texts(constants: Iterable[object]) -> Iterator[str]:
    """Texts among constants, and in code of modules and classes."""
    for one in constants:
        if isinstance(one, str):
            yield one
        elif isinstance(one, bytes):
            yield os.fsdecode(one)
        elif isinstance(one, (tuple, frozenset)):
            yield from _texts(one)
        elif isinstance(one, CodeType) and not one.co_flags & _CO_OPTIMIZED:
            yield from _texts(one.co_consts)
