"""Holders that the standard library's extension modules make, and installed third parties."""

from __future__ import annotations

import array
import asyncio
import concurrent.futures
import contextlib
import ctypes
import datetime
import decimal
import importlib.util
import io
import json
import queue
import re
import sqlite3
import threading
import weakref
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


class _Bytes(bytearray):
    held: Any


@holder
def in_memory_view(held: Any, rng: Random) -> tuple[Any, Getter]:
    below = _Bytes(b"bytes" * 10)
    below.held = held
    return memoryview(below)[2:8], attrgetter("obj.held")


class _Array(array.array):  # type: ignore[type-arg]
    pass


@holder
def in_array(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = _Array("d", range(30))
    made.held = held  # type: ignore[attr-defined]
    return made, attrgetter("held")


@holder
def in_element(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = ElementTree.fromstring("<a><b c='d'>text</b></a>")
    made[0].attrib["held"] = held
    return made, lambda made: made[0].attrib["held"]


@holder
def in_json_decoder(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = json.JSONDecoder(object_hook=lambda _: held)
    return made, lambda made: made.decode("{}")


class _Stream(io.StringIO):
    held: Any


@holder
def in_stream(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = _Stream("text")
    made.held = held
    return io.BufferedReader(made) if rng.random() < 0 else made, attrgetter("held")


class _Zone(datetime.tzinfo):
    held: Any = None


@opaque_holder
def in_time(held: Any, rng: Random) -> tuple[Any, Getter]:
    zone = _Zone()
    zone.held = held
    return datetime.datetime(2026, 1, 1, tzinfo=zone), attrgetter("tzinfo.held")


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
def in_regex_callback(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = re.Scanner([("a", lambda _, __: held)])  # type: ignore[attr-defined]
    return made, lambda made: made.scan("a")[0][0]


@holder
def in_queue(held: Any, rng: Random) -> tuple[Any, Getter]:
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()
    made.put(held)

    def get(made: Any) -> Any:
        found = made.get()
        made.put(found)
        return found

    return made, get


@holder
def in_local(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = threading.local()
    made.held = held
    return made, attrgetter("held")


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


@holder
def in_exit_stack(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = contextlib.ExitStack()
    made.held = held  # type: ignore[attr-defined]
    made.callback(id, held)
    return made, attrgetter("held")


@holder
def in_weak_values(held: Any, rng: Random) -> tuple[Any, Getter]:
    keeper = Keeper(held)
    made = weakref.WeakValueDictionary(key=keeper)
    return (keeper, made), lambda made: made[1]["key"].held


@holder
def in_weak_keys(held: Any, rng: Random) -> tuple[Any, Getter]:
    key = Keeper(1)
    made = weakref.WeakKeyDictionary({key: held})
    return (key, made), lambda made: made[1][made[0]]


if importlib.util.find_spec("greenlet"):
    import greenlet

    def _serve(held: Any) -> None:
        while True:
            greenlet.getcurrent().parent.switch(held)

    def _switch(made: Any) -> Any:
        made.parent = greenlet.getcurrent()
        return made.switch()

    @holder
    def in_greenlet(held: Any, rng: Random) -> tuple[Any, Getter]:
        made = greenlet.greenlet(_serve)
        made.switch(held)
        return made, _switch


if importlib.util.find_spec("numpy"):
    import numpy

    @holder
    def in_object_array(held: Any, rng: Random) -> tuple[Any, Getter]:
        made = numpy.empty(rng.randrange(1, 100), dtype=object)
        made[0] = [held]
        return made, lambda made: made[0][0]


if importlib.util.find_spec("lxml"):
    import lxml.etree

    @holder
    def in_parsed_tree(held: Any, rng: Random) -> tuple[Any, Getter]:
        class Element(lxml.etree.ElementBase):
            kept = (held,)

        lookup = lxml.etree.ElementDefaultClassLookup(element=Element)
        parser = lxml.etree.XMLParser()
        parser.set_element_class_lookup(lookup)
        return lxml.etree.fromstring("<a><b/></a>", parser), lambda made: made.kept[0]


if importlib.util.find_spec("sqlalchemy"):
    from sqlalchemy.engine import result

    @holder
    def in_row(held: Any, rng: Random) -> tuple[Any, Getter]:
        rows = result.IteratorResult(result.SimpleResultMetaData(["a", "b"]), iter([(1, held)]))
        return rows.all(), lambda made: made[0].b
