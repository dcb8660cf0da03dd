"""Holders that small extension modules of the standard library make."""

from __future__ import annotations

import array
import contextlib
import datetime
import io
import json
import mmap
import queue
import re
import threading
import weakref
from operator import attrgetter, itemgetter
from random import Random
from typing import Any

from holders import draw_length, holder, opaque_holder
from holders_classes import Keeper
from world import Getter


class _Bytes(bytearray):
    held: Any


@holder
def in_memory_view(held: Any, rng: Random) -> tuple[Any, Getter]:
    below = _Bytes(b"bytes" * 10)
    below.held = held
    return memoryview(below)[2:8], attrgetter("obj.held")


@holder
def beside_a_view_of_bytes(held: Any, rng: Random) -> tuple[Any, Getter]:
    return [memoryview(b"bytes" * 10)[2:8], held], itemgetter(1)


class _Array(array.array):  # type: ignore[type-arg]
    pass


@holder
def in_array(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = _Array("d", range(30))
    made.held = held  # type: ignore[attr-defined]
    return made, attrgetter("held")


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


class _Map(mmap.mmap):
    held: Any


@holder
def in_memory_map(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = _Map(-1, draw_length(rng) * 4096)
    made.held = held
    if rng.random() < 0.5:
        return memoryview(made), attrgetter("obj.held")
    return made, attrgetter("held")
