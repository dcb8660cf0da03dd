"""Objects of certain classes, among all that the collector lists.

Nothing of an object or its type is called: a proxy answers for another object, and a class may have
a metaclass of its own. Only addresses of types are compared.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native


def instances(classes: Iterable[type]) -> list[Any]:
    """The objects of these classes and of what derives from them; frozen ones are not listed."""
    wanted = _with_derived(classes)
    if not wanted:
        return []
    try:
        found: list[Any] = native().instances(tuple(wanted.values()))
    except (UnsupportedInterpreter, NotImplementedError):
        return [one for one in gc.get_objects() if id(type(one)) in wanted]
    return found


def _with_derived(classes: Iterable[type]) -> dict[int, type]:
    """By address."""
    found: dict[int, type] = {}
    left = list(classes)
    while left:
        one = left.pop()
        if id(one) not in found:
            found[id(one)] = one
            left += type.__subclasses__(one)
    return found
