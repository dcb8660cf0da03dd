"""Holders of large modules of the standard library."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import ctypes
import decimal
import sqlite3
import xml.etree.ElementTree as ElementTree
import zoneinfo
from operator import attrgetter
from random import Random
from typing import Any

from holders import holder, opaque_holder
from holders_classes import Keeper
from world import Getter


@opaque_holder
def in_sqlite_function(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = sqlite3.connect(":memory:")
    kept: dict[int, Any] = {1: held}
    found: list[Any] = []
    made.create_function("give", 1, lambda key: found.append(kept[key]))

    def give(pair: Any) -> Any:
        pair[0].execute("select give(1)").fetchall()
        return pair[1].pop()

    return (made, found), give


_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


@holder
def in_ctypes_callback(held: Any, rng: Random) -> tuple[Any, Getter]:
    found: list[Any] = []

    def give(number: int) -> int:
        found.append(held)
        return number

    made = _Callback(give)

    def get(pair: Any) -> Any:
        pair[0](1)
        return pair[1].pop()

    return (made, found), get


class _Structure(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("held", ctypes.py_object))


@holder
def in_ctypes_structure(held: Any, rng: Random) -> tuple[Any, Getter]:
    return _Structure(3, ctypes.py_object(held)), attrgetter("held")


@holder
def in_ctypes_array(held: Any, rng: Random) -> tuple[Any, Getter]:
    return (ctypes.py_object * 2)(None, held), lambda made: made[1]


@holder
def in_element(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = ElementTree.fromstring("<a><b c='d'>text</b></a>")
    made[0].attrib["held"] = held
    return made, lambda made: made[0].attrib["held"]


class _Decimal(decimal.Decimal):
    held: Any


@holder
def in_decimal(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = _Decimal("1.25")
    made.held = held
    return made, attrgetter("held")


@holder
def in_zone_cache(held: Any, rng: Random) -> tuple[Any, Getter]:
    with contextlib.suppress(zoneinfo.ZoneInfoNotFoundError):
        zoneinfo.ZoneInfo.no_cache("Europe/Berlin")
    return Keeper(held), attrgetter("held")


@holder
def in_future(held: Any, rng: Random) -> tuple[Any, Getter]:
    made: concurrent.futures.Future[Any] = concurrent.futures.Future()
    made.set_result(held)
    return made, lambda made: made.result()


class _Loop(asyncio.AbstractEventLoop):
    """Of which futures ask one thing."""

    def get_debug(self) -> bool:
        return False


_LOOP = _Loop()


@holder
def in_async_future(held: Any, rng: Random) -> tuple[Any, Getter]:
    made: asyncio.Future[Any] = asyncio.Future(loop=_LOOP)
    made.set_result(held)
    return made, lambda made: made.result()
