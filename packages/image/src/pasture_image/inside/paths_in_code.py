"""Paths in code that has run while modules were loaded: it may have compared a folder with them.

In a process that is thrown away. A function is noticed when it runs first; where the interpreter
does not say so (before CPython 3.12) all functions count. A path with a placeholder or a pattern
(`/home/%s`, `/home/*`) counts up to there. Not seen: paths in data, in code in C, and those put
together from parts.
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

    def started(code: CodeType, _offset: int) -> Any:
        texts.update(_texts(code.co_consts, has_all=False))
        return monitoring.DISABLE

    monitoring: Any = getattr(sys, "monitoring", None)
    tool = next((n for n in range(6) if monitoring.get_tool(n) is None), -1) if monitoring else -1
    if tool >= 0:
        monitoring.use_tool_id(tool, "pasture")
        monitoring.register_callback(tool, monitoring.events.PY_START, started)
        monitoring.set_events(tool, monitoring.events.PY_START)
    load()
    if tool >= 0:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    for name in before if tool >= 0 else tuple(sys.modules):
        if name.partition(".")[0] not in _OWN:
            texts.update(_texts([_code(name)], has_all=tool < 0))
    found = {match[1] for text in texts if (match := _PLAIN.match(text))}
    return sorted(path for path in found if is_plain(path.rstrip("/")))


def _code(name: str) -> object:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    with suppress(Exception):  # of a loader of its own
        return spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    return None


def _texts(constants: Iterable[object], has_all: bool) -> Iterator[str]:
    """Texts among constants, and in code of modules and classes, or in all."""
    for one in constants:
        if isinstance(one, str):
            yield one
        elif isinstance(one, bytes):
            yield os.fsdecode(one)
        elif isinstance(one, (tuple, frozenset)):
            yield from _texts(one, has_all)
        elif isinstance(one, CodeType) and (has_all or not one.co_flags & _CO_OPTIMIZED):
            yield from _texts(one.co_consts, has_all)
