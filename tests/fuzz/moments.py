"""Moments at which an action is taken: inside of callbacks that C code makes."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import gc
import itertools
import json
import re
import sqlite3
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from world import ActingToken

Act = Callable[[], None]


def _once(act: Act) -> Callable[..., int]:
    left = [act]

    def take(*_: object) -> int:
        if left:
            left.pop()()
        return 0

    return take


def in_sort(act: Act) -> None:
    sorted(range(100), key=_once(act))
    [str(i) for i in range(200)].sort(key=_once(act))


def in_comparison(act: Act) -> None:
    class Key:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            take()
            return self is other

    take = _once(act)
    table = {Key(): [i] for i in range(5)}
    table[Key()] = []
    {Key(), Key(), Key()}.discard(Key())


def in_generator(act: Act) -> None:
    def generate() -> Iterator[int]:
        for number in range(5):
            act() if number == 2 else None
            yield number

    sum(generate())


def in_coroutine(act: Act) -> None:
    async def deeper() -> None:
        act()

    async def run() -> None:
        await deeper()

    try:
        run().send(None)
    except StopIteration:
        pass


def in_metaclass(act: Act) -> None:
    take = _once(act)

    class Meta(type):
        def __new__(mcs, *args: Any) -> Any:
            take()
            return super().__new__(mcs, *args)

        def mro(cls) -> list[type]:
            take()
            return super().mro()

    class Base(metaclass=Meta):
        def __init_subclass__(cls) -> None:
            take()

    take = _once(act)

    class Derived(Base):
        pass

    Derived.attribute = 1  # type: ignore[attr-defined]


def in_finalizer(act: Act) -> None:
    before = ActingToken.act
    ActingToken.act = staticmethod(_once(act))
    try:
        token = ActingToken(-1)
        token.links.append(token)
        del token
        gc.collect()
    finally:
        ActingToken.act = staticmethod(before)


def in_weak_callback(act: Act) -> None:
    class Cycle:
        pass

    made = Cycle()
    made.itself = made  # type: ignore[attr-defined]
    reference = weakref.ref(made, _once(act))
    del made
    gc.collect()
    del reference


def in_collector_callback(act: Act) -> None:
    take = _once(act)
    gc.callbacks.append(take)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(take)


def in_ctypes_callback(act: Act) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    values = (ctypes.c_int * 10)(*range(10, 0, -1))
    ctypes.CDLL(None).qsort(values, 10, ctypes.sizeof(ctypes.c_int), kind(_once(act)))


def in_trace_function(act: Act) -> None:
    take = _once(act)
    before = sys.gettrace()
    sys.settrace(lambda *_: (take(), None)[1])
    try:
        (lambda: 1)()
    finally:
        sys.settrace(before)


def in_profile_function(act: Act) -> None:
    before = sys.getprofile()
    sys.setprofile(_once(act))
    try:
        len("abc")
    finally:
        sys.setprofile(before)


def in_json_hook(act: Act) -> None:
    json.loads('[{"a": [1, {"b": 2}]}]', object_pairs_hook=_once(act))
    json.dumps([object()], default=_once(act))


def in_sqlite_function(act: Act) -> None:
    connection = sqlite3.connect(":memory:")
    connection.create_function("act", 0, _once(act))
    connection.execute("select act()").fetchall()
    connection.close()


def in_substitution(act: Act) -> None:
    take = _once(act)
    re.sub("[abc]", lambda _: str(take()), "abcabc" * 20)


def in_reduce(act: Act) -> None:
    functools.reduce(_once(act), range(5), 0)
    list(itertools.groupby(range(10), key=_once(act)))


def in_context(act: Act) -> None:
    contextvars.copy_context().run(act)


def in_thread(act: Act) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def in_exception(act: Act) -> None:
    try:
        {}["missing"]
    except KeyError:
        try:
            raise ValueError
        except ValueError:
            act()


def in_deep_recursion(act: Act) -> None:
    def descend(depth: int) -> None:
        descend(depth - 1) if depth else act()

    descend(200)


def in_conversion(act: Act) -> None:
    take = _once(act)

    class Item:
        def __index__(self) -> int:
            return take()

        def __len__(self) -> int:
            return take()

        def __iter__(self) -> Iterator[int]:
            take()
            return iter((1, 2))

        def __del__(self) -> None:
            pass

    for convert in (list, tuple, set, bytes, bool, range):
        take = _once(act)
        convert(Item())


MOMENTS: tuple[Callable[[Act], None], ...] = tuple(
    value for name, value in list(globals().items()) if name.startswith("in_")
)
