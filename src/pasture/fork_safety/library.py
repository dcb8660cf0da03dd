"""The card of a library: everything that is known of its state in a parent that forks.

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
    """The version that a loaded module gives, in numbers; empty where it is not known."""
    text = getattr(sys.modules.get(module), attribute, "")
    return tuple(map(int, re.findall(r"\d+", str(text))))


class ForkAware(NamedTuple):
    """How a library copes with a fork whose connections stay open: each child opens its own."""

    module: str  # name of the module, which has the version
    # oldest, newest: versions that were tried, the first numbers of each.
    oldest: Version
    newest: Version
    # Takes the library's module; classes whose objects know its connections.
    keepers: Callable[[Any], Iterable[object]]
    # Takes such objects; numbers of the open files that no child will use.
    idle: Callable[[Sequence[Any]], Iterable[int]]
    copes: Callable[[], bool] = lambda: True  # whether it is not configured to leave forks alone
    # Module and attribute with the version; "" for `module`.
    versioned: str = ""
    attribute: str = "__version__"

    def is_trusted(self) -> bool:
        """Whether it has been imported, in a version of which it is known that it copes."""
        numbers = version_of(self.versioned or self.module, self.attribute)
        tried = self.oldest <= numbers and numbers[: len(self.newest)] <= self.newest
        return tried and self.copes()


class LoopOwned(NamedTuple):
    """A class whose objects keep connections, threads or an event loop of asyncio itself."""

    # module, name: where an application imports it from.
    module: str
    name: str
    close: Close  # closes one in the running loop; None where there is nothing to close
    is_open: Callable[[Any], bool] = lambda one: True  # whether there is something to close
    # Whether it has data that end with its connection: closed with the loop only.
    is_kept: Callable[[Any], bool] = lambda one: False
    is_for_good: bool = True  # the object cannot be used again afterwards, on any loop
    # Attributes that keep the loop, and that the library sets again if they are None.
    unbind: tuple[str, ...] = ()


class Closing(NamedTuple):
    """Connections that are closed before the fork, and reopen by themselves at the next use."""

    kind: str  # name in the report
    # Takes a list for what went wrong, a line each; returns how many were closed.
    close: Callable[[list[str]], int]
    # Left open where the process goes on using its connections to databases.
    to_database: bool = False


class Named(NamedTuple):
    """Threads that are known by their names."""

    part: str  # part of the name
    owner: str  # whose they are
    remedy: str  # what to do about them


class Library(NamedTuple):
    """One library."""

    package: str = ""  # its name in an index of packages, in lower case; "" if it has none
    remedy: str = ""  # what to do about threads of this package; "" for the usual
    threads: tuple[Named, ...] = ()  # threads that are known by their names
    # Begin of the names of threads that it starts again in each worker.
    restarted: tuple[str, ...] = ()
    restarts_all: bool = False  # it does so with all threads of the package
    starts_them: Callable[[], bool] = lambda: True  # whether the version that is loaded does so
    # Threads that it starts again and whose locks it does not renew: a child may wait for one.
    locks: Callable[[threading.Thread], bool] = lambda thread: False
    # Identifiers of threads with which it does so.
    restarted_now: Callable[[], Collection[int]] = frozenset
    known_elsewhere: bool = False  # its native threads are no hazard, or one of `hazards`
    # Regular expression of files on the stack of native threads that children do without; "" for
    # none.
    native_files: str = ""
    # End of the address of connections that it closes at each fork; "".
    closed_at_fork: Callable[[], str] = str
    hazards: Callable[[], Iterable[Hazard]] = tuple  # what else of it does not survive a fork
    fork_aware: ForkAware | None = None  # how it copes with a fork, if that was tried
    # Asynchronous clients; pools before the connections that they close.
    on_loop: tuple[LoopOwned, ...] = ()
    closings: tuple[Closing, ...] = ()  # connections that are closed before the fork
    # Have each child put its copy in order. Called before each seal.
    prepare_children: Callable[[], None] = lambda: None
    # while_sealing, while_warming: what is done with it during the seal, and the warm-up.
    while_sealing: Callable[[], AbstractContextManager[None]] = nullcontext
    while_warming: Callable[[], AbstractContextManager[None]] = nullcontext


def instances(classes: Iterable[type]) -> list[Any]:
    """The objects of these classes and of what derives from them; frozen ones are not listed.

    Nothing of an object or its type is called: a proxy answers for another object.
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
