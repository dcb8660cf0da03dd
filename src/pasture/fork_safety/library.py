"""The card of a library: what is known about its state in a parent that forks.

`libraries/` has the cards. A library counts only if the application has imported it: what a card
calls looks into `sys.modules` and imports nothing.
"""

from __future__ import annotations

import gc
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native
from pasture.reasons import Hazard

Version = tuple[int, ...]
Close = Callable[[Any], Awaitable[object] | None]


def version_of(module: str, attribute: str = "__version__") -> Version:
    """The version of a loaded module, in numbers; empty where it is unknown."""
    text = getattr(sys.modules.get(module), attribute, "")
    return tuple(map(int, re.findall(r"\d+", str(text))))


class ForkAware(NamedTuple):
    """How a library copes with a fork whose connections stay open: each child opens its own."""

    module: str  # name of the module, which has the version
    # oldest, newest: versions that were tried, the first numbers of each.
    oldest: Version
    newest: Version
    # Takes the library's module; returns classes whose objects know its connections.
    keepers: Callable[[Any], Iterable[object]]
    # Takes such objects; returns numbers of the open files that children will not use.
    idle: Callable[[Sequence[Any]], Iterable[int]]
    copes: Callable[[], bool] = lambda: True  # whether its configuration lets it handle forks
    versioned: str = ""  # module and attribute with the version; "" for `module`
    attribute: str = "__version__"

    def is_trusted(self) -> bool:
        """Whether it has been imported, in a version that is known to cope."""
        numbers = version_of(self.versioned or self.module, self.attribute)
        tried = self.oldest <= numbers and numbers[: len(self.newest)] <= self.newest
        return tried and self.copes()


class LoopOwned(NamedTuple):
    """A class whose objects keep connections, threads or an event loop of asyncio itself."""

    # module, name: where an application imports the class from.
    module: str
    name: str
    close: Close  # closes an object in the running loop; None where nothing needs closing
    is_open: Callable[[Any], bool] = lambda one: True  # whether there is something to close
    # Whether its data end with its connection: then it is closed only with the loop.
    is_kept: Callable[[Any], bool] = lambda one: False
    is_for_good: bool = True  # the object cannot be used again afterwards, on any loop
    # Attributes that keep the loop, and that the library sets again if they are None.
    unbind: tuple[str, ...] = ()


class Closing(NamedTuple):
    """Connections that are closed before the fork, and reopen by themselves at the next use."""

    kind: str  # name in the report
    # Takes a list that gets a line for each error; returns how many were closed.
    close: Callable[[list[str]], int]
    # Left open where the process goes on using its connections to databases.
    to_database: bool = False


class Named(NamedTuple):
    """Threads that are known by their names."""

    part: str  # part of the name
    owner: str  # their owner, in words
    remedy: str  # what to do about them


class Library(NamedTuple):
    package: str = ""  # its name on PyPI, in lower case; "" without one
    remedy: str = ""  # what to do about threads of this package; "" for the usual remedy
    threads: tuple[Named, ...] = ()  # threads that are known by their names
    # Prefixes of the names of threads that it starts again in each worker.
    restarted: tuple[str, ...] = ()
    restarts_all: bool = False  # it starts all threads of the package again
    starts_them: Callable[[], bool] = lambda: True  # whether the loaded version starts them again
    # Whether a thread that it starts again has a lock that it does not renew: a child may hang.
    locks: Callable[[threading.Thread], bool] = lambda thread: False
    # Identifiers of threads that it starts again.
    restarted_now: Callable[[], Collection[int]] = frozenset
    known_elsewhere: bool = False  # its native threads are harmless, or reported by `hazards`
    # Regular expression for files on the stack of native threads that children do without; "" for
    # none.
    native_files: str = ""
    # End of the address of connections that it closes at each fork; "" for none.
    closed_at_fork: Callable[[], str] = str
    hazards: Callable[[], Iterable[Hazard]] = tuple  # its other hazards
    fork_aware: ForkAware | None = None  # how it copes with a fork, if tried
    # Asynchronous clients; pools before the connections that they close.
    on_loop: tuple[LoopOwned, ...] = ()
    closings: tuple[Closing, ...] = ()  # connections that are closed before the fork
    # Have each child put its copy in order. Called before each seal.
    prepare_children: Callable[[], None] = lambda: None
    # while_sealing, while_warming: contexts for the seal and for the warm-up.
    while_sealing: Callable[[], AbstractContextManager[None]] = nullcontext
    while_warming: Callable[[], AbstractContextManager[None]] = nullcontext


def instances(classes: Iterable[type]) -> list[Any]:
    """The objects of these classes and of what derives from them; frozen ones are not listed.

    Calls no code of an object or its type: a proxy would answer for another object.
    """
    wanted = _with_derived(classes)
    if not wanted:
        return []
    try:
        found: list[Any] = native().instances(tuple(wanted.values()))
    except (UnsupportedInterpreter, NotImplementedError):
        return [one for one in gc.get_objects() if id(type(one)) in wanted]
    return found


def _with_derived(classes: Iterable[type]) -> dict[int, type]:
    found: dict[int, type] = {}
    left = list(classes)
    while left:
        one = left.pop()
        if id(one) not in found:
            found[id(one)] = one
            left += type.__subclasses__(one)
    return found
