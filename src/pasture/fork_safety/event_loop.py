"""The objects that hang on an event loop of asyncio that is stopped, and work in no child.

A child has a loop of its own. What the application has given to the parent's loop (tasks, timers,
connections) does not run there, and what has kept the loop itself fails at its next use. Looks;
runs, closes and changes nothing. The search for what has kept the loop walks the heap once.
"""

from __future__ import annotations

import asyncio
import gc
import os
import types
from collections.abc import Collection, Iterator
from pathlib import Path
from selectors import BaseSelector
from typing import Any

from pasture.fork_safety.hazard import Hazard

_FILES = Path("/proc/self/fd")
_IN_EACH = "start it in each worker"
_OPEN_IN_EACH = "open it in each worker"

_BY_ITSELF = ("anyio.", "asyncio.", "uvloop.")
"""Modules whose objects that keep a loop ask for the running one when they are used again. Of
asyncio that does not hold for its locks and queues."""

BOUND = (asyncio.Lock, asyncio.Event, asyncio.Condition, asyncio.Semaphore, asyncio.Queue)
"""What a task that waits for it binds to the task's loop."""

_SUSPENDED = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType, types.FrameType)
_CALLS = (types.MethodType, types.BuiltinMethodType, types.CellType)


class SurveyedLoop:
    """An event loop that can be asked what hangs on it.

    Make the loop with `make` and give it to a runner.
    """

    def __init__(self, selector: BaseSelector) -> None:
        self._selector = selector
        self.loop = asyncio.SelectorEventLoop(selector)
        self._own_files = set(selector.get_map())

    def make(self) -> asyncio.AbstractEventLoop:
        """The loop, as the factory of a runner."""
        return self.loop

    def hazards(self, own: Collection[object]) -> Iterator[Hazard]:
        """What of the loop does not survive a fork. Not while the loop runs.

        Args:
            own: tasks and others that belong to the caller.
        """
        yield from self._tasks(own)
        yield from self._timers()
        yield from self._files()
        yield from self._keepers(own)

    def _tasks(self, own: Collection[object]) -> Iterator[Hazard]:
        for task in asyncio.all_tasks(self.loop):
            if not _is_any(task, own):
                name = getattr(task.get_coro(), "__qualname__", task.get_name())
                yield Hazard(f"the task {name}()", _IN_EACH)

    def _timers(self) -> Iterator[Hazard]:
        for timer in getattr(self.loop, "_scheduled", ()):
            # The limits of waits for a task are seen with the task.
            called = getattr(timer, "_callback", None)
            if not timer.cancelled() and not str(_module(called)).startswith("asyncio."):
                yield Hazard(f"the timer that calls {_named(called)}()", _IN_EACH)

    def _files(self) -> Iterator[Hazard]:
        for number in self._selector.get_map():
            if number not in self._own_files:
                what = f"the open file {number}"
                try:
                    what = f"{what}, {os.fspath((_FILES / str(number)).readlink())},"
                except OSError:
                    pass
                yield Hazard(f"{what} that the event loop waits for", _OPEN_IN_EACH)

    def _keepers(self, own: Collection[object]) -> Iterator[Hazard]:
        gc.collect()
        names = {
            describe(keeper)
            for keeper in gc.get_referrers(self.loop)
            if keeper is not vars(self) and keeper is not self and not _is_any(keeper, own)
        }
        for name in sorted(filter(None, names)):
            yield Hazard(f"{name}, which has kept the event loop,", _OPEN_IN_EACH)


def _is_any(one: object, all_of_them: Collection[object]) -> bool:
    return any(one is other or one is getattr(other, "__dict__", None) for other in all_of_them)


def describe(keeper: Any) -> str | None:
    """What keeps a loop, in words; None if that does no harm in a child."""
    if isinstance(keeper, dict):
        return _describe_dict(keeper)
    if isinstance(keeper, (*_SUSPENDED, *_CALLS)) or isinstance(keeper, asyncio.Future):
        return None  # they run in the parent only, or are seen as tasks
    module = type(keeper).__module__
    if module.startswith(_BY_ITSELF) and not isinstance(keeper, BOUND):
        return None
    return f"an object of {module}.{type(keeper).__qualname__}"


def _describe_dict(keeper: dict[Any, Any]) -> str | None:
    for owner in gc.get_referrers(keeper):
        if isinstance(owner, types.ModuleType):
            return f"the module {owner.__name__}"
        if getattr(owner, "__dict__", None) is keeper:
            return describe(owner)
    keys = [key for key, value in keeper.items() if isinstance(value, asyncio.AbstractEventLoop)]
    return f"a dict under {keys[0]!r}" if keys else "a dict"


def _module(function: Any) -> str | None:
    return getattr(function, "__module__", None)


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))
