"""The card of a library: everything that is known of its state in a parent that forks.

`libraries/` has the cards. A library counts only if the application has imported it: what a card
calls looks into `sys.modules` and imports nothing.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native
from pasture.reasons import Hazard

Version = tuple[int, ...]
Close = Callable[[Any], Awaitable[object] | None]


@dataclass(frozen=True, slots=True)
class ForkAware:
    """How a library copes with a fork whose connections stay open: each child opens its own.

    Attributes:
        module: name of the module, which has the version.
        oldest, newest: versions that were tried, the first numbers of each.
        keepers: takes the library's module; classes whose objects know its connections.
        idle: takes such objects; numbers of the open files that no child will use.
        copes: whether it is not configured to leave forks alone.
    """

    module: str
    oldest: Version
    newest: Version
    keepers: Callable[[Any], Iterable[object]]
    idle: Callable[[Sequence[Any]], Iterable[int]]
    copes: Callable[[], bool] = lambda: True

    def is_trusted(self) -> bool:
        """Whether it has been imported, in a version of which it is known that it copes."""
        version = getattr(sys.modules.get(self.module), "__version__", "")
        numbers = tuple(map(int, re.findall(r"\d+", str(version))))
        tried = self.oldest <= numbers and numbers[: len(self.newest)] <= self.newest
        return tried and self.copes()


@dataclass(frozen=True, slots=True)
class LoopOwned:
    """A class whose objects keep connections, threads or an event loop of asyncio itself.

    Attributes:
        module, name: where an application imports it from.
        close: closes one in the running loop; None where there is nothing to close.
        is_open: whether there is something to close.
        is_kept: whether it has data that end with its connection: closed with the loop only.
        is_for_good: the object cannot be used again afterwards, on any loop.
        unbind: attributes that keep the loop, and that the library sets anew if they are None.
    """

    module: str
    name: str
    close: Close
    is_open: Callable[[Any], bool] = lambda one: True
    is_kept: Callable[[Any], bool] = lambda one: False
    is_for_good: bool = True
    unbind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Closing:
    """Connections that are closed before the fork, and reopen by themselves at the next use.

    Attributes:
        kind: name in the report.
        close: takes a list for what went wrong, a line each; returns how many were closed.
        to_database: left open where the process goes on using its connections to databases.
    """

    kind: str
    close: Callable[[list[str]], int]
    to_database: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """Threads that are known by their names.

    Attributes:
        part: part of the name.
        owner: whose they are.
        remedy: what to do about them.
    """

    part: str
    owner: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One library.

    Attributes:
        package: its name in an index of packages, in lower case; "" if it has none.
        remedy: what to do about threads of this package; "" for the usual.
        threads: threads that are known by their names.
        restarted: begin of the names of threads that it starts again in each worker.
        restarts_all: it does so with all threads of the package.
        restarted_now: identifiers of threads with which it does so.
        known_elsewhere: its native threads are no hazard, or one of `hazards`.
        native_files: regular expression of files on the stack of native threads that children do
            without; "" for none.
        closed_at_fork: end of the address of connections that it closes at each fork; "".
        hazards: what else of it does not survive a fork.
        fork_aware: how it copes with a fork, if that was tried.
        on_loop: asynchronous clients; pools before the connections that they close.
        closings: connections that are closed before the fork.
        prepare_children: have each child put its copy in order. Called before each seal.
        while_sealing, while_warming: what is done with it during the seal, and the warm-up.
    """

    package: str = ""
    remedy: str = ""
    threads: tuple[Named, ...] = ()
    restarted: tuple[str, ...] = ()
    restarts_all: bool = False
    restarted_now: Callable[[], Collection[int]] = frozenset
    known_elsewhere: bool = False
    native_files: str = ""
    closed_at_fork: Callable[[], str] = str
    hazards: Callable[[], Iterable[Hazard]] = tuple
    fork_aware: ForkAware | None = None
    on_loop: tuple[LoopOwned, ...] = ()
    closings: tuple[Closing, ...] = ()
    prepare_children: Callable[[], None] = lambda: None
    while_sealing: Callable[[], AbstractContextManager[None]] = nullcontext
    while_warming: Callable[[], AbstractContextManager[None]] = nullcontext


def instances(classes: Iterable[type]) -> list[Any]:
    """The objects of these classes and of what derives from them; frozen ones are not listed.

    Nothing of an object or its type is called: a proxy answers for another object, and a class may
    have a metaclass of its own. Only addresses of types are compared.
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
    """By address."""
    found: dict[int, type] = {}
    left = list(classes)
    while left:
        one = left.pop()
        if id(one) not in found:
            found[id(one)] = one
            left += type.__subclasses__(one)
    return found
