"""Moments at which an action is taken: inside of callbacks that C code makes."""

from __future__ import annotations

import contextvars
import functools
import gc
import itertools
import json
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import interpreters
from world import ActingToken

Act = Callable[[], None]


def once(act: Act) -> Callable[..., int]:
    left = [act]

    def take(*_: object) -> int:
        if left:
            left.pop()()
        return 0

    return take


def in_sort(act: Act) -> None:
    sorted(range(100), key=once(act))
    [str(i) for i in range(200)].sort(key=once(act))


def in_comparison(act: Act) -> None:
    class Key:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            take()
            return self is other

    take = once(act)
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
    take = once(act)

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

    take = once(act)

    class Derived(Base):
        pass

    Derived.attribute = 1  # type: ignore[attr-defined]


def in_finalizer(act: Act) -> None:
    before = ActingToken.act
    take = once(act)
    ActingToken.act = staticmethod(take)  # type: ignore[assignment]
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
    reference = weakref.ref(made, once(act))
    del made
    gc.collect()
    del reference


def in_collector_callback(act: Act) -> None:
    take = once(act)
    gc.callbacks.append(take)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(take)


def in_trace_function(act: Act) -> None:
    take = once(act)
    before = sys.gettrace()
    sys.settrace(lambda *_: (take(), None)[1])
    try:
        (lambda: 1)()
    finally:
        sys.settrace(before)


def in_profile_function(act: Act) -> None:
    before = sys.getprofile()
    if before is not None and not callable(before):
        act()
        return  # cProfile runs: before 3.12 it cannot be given back
    sys.setprofile(once(act))
    try:
        len("abc")
    finally:
        sys.setprofile(before)


def in_json_hook(act: Act) -> None:
    json.loads('[{"a": [1, {"b": 2}]}]', object_pairs_hook=once(act))
    json.dumps([object()], default=once(act))


def in_substitution(act: Act) -> None:
    take = once(act)
    re.sub("[abc]", lambda _: str(take()), "abcabc" * 20)


def in_reduce(act: Act) -> None:
    functools.reduce(once(act), range(5), 0)
    list(itertools.groupby(range(10), key=once(act)))


def in_context(act: Act) -> None:
    contextvars.copy_context().run(act)


def in_thread(act: Act) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def in_exception(act: Act) -> None:
    try:
        dict[str, int]()["missing"]
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
    take = once(act)

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
        take = once(act)
        convert(Item())


_RUNNING = """
def run(act, turns):
    box = []
    def made():
        for number in range(turns):
            yield ("constant {0}", {0}, number)
    total, made = 0, made()
    for number in range(turns):
        if number == turns // 2:
            act()
        box.append("shared_constant_{0}")
        total += {0} + next(made)[1] + len(box.pop()) + ord("é")
    return total
"""


def in_running_code(act: Act) -> None:
    """In a loop that goes on with its constants, and with a generator's."""
    number = len(gc.get_threshold()) * 10**6 + id(act) % 10**6
    names: dict[str, Any] = {}
    exec(_RUNNING.format(number), names)
    turns = 100
    expected = turns * (2 * number + len(f"shared_constant_{number}") + ord("é"))
    for _ in range(2):
        if names["run"](once(act), turns) != expected:
            raise AssertionError("running code gives another result")


def in_greenlet(act: Act) -> None:
    greenlet = sys.modules.get("greenlet")
    if greenlet is None:
        return act()
    others = [greenlet.greenlet(lambda: greenlet.getcurrent().parent.switch()) for _ in range(5)]
    for each in others:
        each.switch()
    greenlet.greenlet(act).switch()
    for each in others:
        each.switch()


def in_finalizer_while_forked(act: Act) -> None:
    """A thread forks while a finalizer of a collection waits for it."""

    def fork_then_act() -> None:
        if interpreters.alive:
            return act()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            gc.collect()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            raise AssertionError(f"a thread's child ended with {os.waitstatus_to_exitcode(status)}")
        act()

    in_finalizer(partial(in_thread, fork_then_act))


if sys.version_info >= (3, 12):

    def in_monitoring_callback(act: Act) -> None:
        monitoring, tool = sys.monitoring, 4
        monitoring.use_tool_id(tool, "fuzz moment")
        event = monitoring.events.LINE
        monitoring.register_callback(tool, event, once(act))
        monitoring.set_events(tool, event)
        try:
            sorted(range(10), key=lambda each: -each)
        finally:
            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)


MOMENTS: list[Callable[[Act], None]] = [
    value for name, value in list(globals().items()) if name.startswith("in_")
]

WITH_THREADS = (in_thread, in_finalizer_while_forked)
