"""Holders that hold by code: closures, frames, and generators suspended at every place."""

from __future__ import annotations

import contextvars
import sys
import types
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from functools import partial
from random import Random
from typing import Any

from holders import holder
from world import Getter


def _first(value: Any, _: object) -> Any:
    return value


@holder
def in_closure(held: Any, rng: Random) -> tuple[Any, Getter]:
    return lambda: held, lambda made: made()


@holder
def in_default(held: Any, rng: Random) -> tuple[Any, Getter]:
    def function(*, given: Any = held) -> Any:
        return given

    return function, lambda made: made()


@holder
def in_method(held: Any, rng: Random) -> tuple[Any, Getter]:
    return types.MethodType(_first, held), lambda made: made(None)


@holder
def in_builtin_method(held: Any, rng: Random) -> tuple[Any, Getter]:
    return [held].__getitem__, lambda made: made(0)


@holder
def in_replaced_code(held: Any, rng: Random) -> tuple[Any, Getter]:
    made, _ = in_closure(held, rng)
    code = made.__code__.replace(co_name="replaced", co_firstlineno=rng.randrange(1, 99))
    function = types.FunctionType(code, globals(), "replaced", None, made.__closure__)
    return function, lambda made: made()


@holder
def in_compiled_code(held: Any, rng: Random) -> tuple[Any, Getter]:
    names: dict[str, Any] = {"held": held}
    numbers = ", ".join(str(rng.randrange(2**40)) for _ in range(5))
    exec(f"def give(x=None):\n    '{numbers}'\n    return (held, ({numbers}))[0]", names)
    for _ in range(rng.choice((0, 1, 9, 40))):
        names["give"]()
    return names["give"], lambda made: made()


def _plain(held: Any) -> Iterator[Any]:
    while True:
        yield held


def _in_try(held: Any) -> Iterator[Any]:
    try:
        while True:
            try:
                raise KeyError(held)
            except KeyError as error:
                yield error.args[0]
    finally:
        del held


def _delegating(held: Any) -> Iterator[Any]:
    yield from _in_try(held)


def _on_stack(box: list[Any]) -> Generator[Any, None, None]:
    while True:
        box.append(_first(box.pop(), (yield)))
        yield box[0]


def _from_stack(made: Generator[Any, None, None]) -> Any:
    held = next(made)
    next(made)
    return held


@holder
def in_generator(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = rng.choice((_plain, _in_try, _delegating))(held)
    for _ in range(rng.choice((0, 1, 20))):
        next(made)
    return made, next


@holder
def on_stack_of_generator(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = _on_stack([held])
    next(made)
    return made, _from_stack


@holder
def in_generator_expression(held: Any, rng: Random) -> tuple[Any, Getter]:
    return (each for each in iter(lambda: held, None)), next


@types.coroutine
def _give(value: Any) -> Generator[Any, None, None]:
    yield value


async def _awaiting(held: Any) -> None:
    while True:
        await _give(held)


async def _awaiting_deeper(held: Any) -> None:
    inner: Coroutine[Any, Any, None] = _awaiting(held)
    await inner


async def _asynchronous(held: Any) -> AsyncIterator[Any]:
    while True:
        yield held


def _from_async(made: Any) -> Any:
    try:
        made.__anext__().send(None)
    except StopIteration as stop:
        return stop.value


@holder
def in_coroutine(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = rng.choice((_awaiting, _awaiting_deeper))(held)
    made.send(None)
    return made, lambda made: made.send(None)


@holder
def in_async_generator(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = _asynchronous(held)
    if rng.random() < 0.7:
        _from_async(made)
    return made, _from_async


@holder
def in_frame(held: Any, rng: Random) -> tuple[Any, Getter]:
    return sys._getframe(), lambda made: made.f_locals["held"]


@holder
def in_traceback(held: Any, rng: Random) -> tuple[Any, Getter]:
    try:
        raise LookupError
    except LookupError as error:
        made = error.with_traceback(error.__traceback__)
    return made, lambda made: made.__traceback__.tb_frame.f_locals["held"]


@holder
def in_exception(held: Any, rng: Random) -> tuple[Any, Getter]:
    inner = ValueError(held)
    made = ExceptionGroup("group", [inner]) if rng.random() < 0.5 else OSError(2, "", "", 0, "")
    made.__cause__ = inner
    return made, lambda made: made.__cause__.args[0]


_variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")


@holder
def in_context(held: Any, rng: Random) -> tuple[Any, Getter]:
    context = contextvars.copy_context()
    context.run(_variable.set, held)
    return context, lambda made: made[_variable]


@holder
def in_partial_method(held: Any, rng: Random) -> tuple[Any, Getter]:
    return property(partial(_first, held)), lambda made: made.fget(None)


@holder
def in_static_method(held: Any, rng: Random) -> tuple[Any, Getter]:
    return staticmethod(lambda: held), lambda made: made.__func__()
