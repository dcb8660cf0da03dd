"""The operations by name: each draws from its own seed what it does to the world."""

from __future__ import annotations

import gc
import resource
import sys
import typing
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from actions import act
from holders import OPAQUE, draw_holder, draw_length, filling
from interpreters import end_interpreter, start_interpreter, use_interpreter
from moments import MOMENTS, WITH_THREADS
from threads import busy_threads, end_threads, meddling_threads, start_thread
from world import TOKENS, ActingToken, Broken, PlainToken, World, rescued

import pasture
from pasture import _native
from tools import TOOLS

MAX_ROOTS = 60
MAX_EXTRAS = 25


def hold(rng: Random, world: World) -> None:
    token = rng.choice(TOKENS)(len(world.nodes))
    outer: Any = token
    path: list[Any] = []
    names = []
    for _ in range(rng.randrange(5)):
        name, make = draw_holder(rng)
        outer, get = make(outer, rng)
        path.insert(0, get)
        names.append(name)
    token.back = outer if rng.random() < 0.6 else None  # type: ignore[attr-defined]
    kind = " ".join([type(token).__name__, *names])
    world.add(token, outer, tuple(path), kind)
    world.nodes[token.number].stays = not OPAQUE.isdisjoint(names)
    if len(world.roots) > MAX_ROOTS:
        drop(rng, world)


def drop(rng: Random, world: World) -> None:
    for _ in range(rng.choice((1, 1, 1, 10))):
        if world.roots:
            del world.roots[rng.choice(list(world.roots))]
    if rng.random() < 0.1:
        for token in rescued:
            world.nodes[token.number].stays = True
        rescued.clear()


def link(rng: Random, world: World) -> None:
    """Have one token hold what leads to another: shared structures and long cycles."""
    reachable = world.reachable()
    if reachable:
        source, target = rng.choice(reachable), rng.choice(reachable)
        token = world.nodes[source].observer()
        if token is not None:
            token.links.append(world.outer_of(target))
            world.nodes[source].links.append(target)


def unlink(rng: Random, world: World) -> None:
    reachable = [number for number in world.reachable() if world.nodes[number].links]
    if reachable:
        node = world.nodes[rng.choice(reachable)]
        token = node.observer()
        place = rng.randrange(len(node.links))
        if token is not None:
            del token.links[place]
            del node.links[place]


def churn(rng: Random, world: World) -> None:
    """Attributes come and go, values become dictionaries."""
    for number in world.reachable()[:: rng.randrange(1, 5)]:
        token = world.nodes[number].observer()
        if not isinstance(token, PlainToken):
            continue
        for name in ("one", "two", "three"):
            if rng.random() < 0.5:
                setattr(token, name, [name])
            elif name in vars(token):
                delattr(token, name)
        if rng.random() < 0.1:
            token.__dict__ = dict(vars(token))


def _has_hash(expected: int, made: list[Any]) -> bool:
    """Quick, whatever traces the program."""
    return hash(tuple(made)) == expected


def fill(rng: Random, world: World) -> None:
    if len(world.extras) >= MAX_EXTRAS:
        empty(rng, world)
    made = filling(rng, draw_length(rng) * rng.choice((1, 1, 5)))
    world.extras.append((made, partial(_has_hash, hash(tuple(made)))))


def empty(rng: Random, world: World) -> None:
    if world.extras:
        del world.extras[rng.randrange(len(world.extras))]


_CODE = """
class Point:
    __slots__ = ("x", "y")
    def __init__(self, x):
        self.x = x
        self.y = (x, "{0} y", {1})

class Free:
    def __init__(self, x):
        self.x = x
    @property
    def double(self):
        return self.x * 2

def run(count={2}):
    total, seen = 0, []
    for i in range(count):
        p, f = Point(i), Free(i)
        total += p.x + f.double + len(p.y) + {1}
        seen.append(f"{{i}}-{0}" if i % 2 else "literal {0}")
        try:
            {{"key": i}}["no" if i % 3 == 0 else "key"]
        except KeyError as error:
            seen.append(error.args)
        f.x = ("constant {0}", 1.5, {1}, b"{0}")
        match f.x:
            case (a, _, b, c):
                total += len(a) + b % 7
    return total, seen[:5], [each for each in map(str.upper, ("{0}", "b"))], {{"{0}", "x"}}
"""


def _gives(expected: Any, function: Callable[[], Any]) -> bool:
    return bool(function() == expected)


def run_code(rng: Random, world: World) -> None:
    source = _CODE.format(f"n{rng.randrange(1000)}", rng.randrange(2**40), rng.choice((1, 5, 60)))
    names: dict[str, Any] = {"__name__": "made"}
    exec(compile(source, "<made>", "exec", optimize=rng.randrange(3)), names)
    function = names["run"]
    expected = function()
    for _ in range(rng.choice((0, 1, 10, 40))):
        function()
    if len(world.extras) < MAX_EXTRAS:
        world.extras.append((function, partial(_gives, expected)))


def walk(rng: Random, world: World) -> None:
    for each in gc.get_referrers(world.roots)[:10]:
        type(each).__name__  # noqa: B018
    for each in gc.get_objects()[:: rng.randrange(1, 50)]:
        sys.getsizeof(each) if type(each) in (list, dict, tuple) else None


def _act_steadily(rng: Random, world: World) -> None:
    world.steady = True
    try:
        act(rng, world)
    finally:
        world.steady = False


def moment(rng: Random, world: World) -> None:
    chosen = rng.choice(MOMENTS)
    if not (world.limited and chosen in WITH_THREADS):
        chosen(partial(_act_steadily, rng, world))


def tool(rng: Random, world: World) -> None:
    if rng.random() < 0.2:
        seed = rng.getrandbits(32)
        ActingToken.act = staticmethod(lambda: act(Random(seed), world))
    with suppress(ValueError):  # the place of this tool is taken
        rng.choice(TOOLS)()


def _address_space_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def low_memory(rng: Random, world: World) -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space_bytes() + rng.choice((0, 2**16, 2**20, 2**23, 2**26))
    limited, world.limited = world.limited, True
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limits[1]))
        with suppress(MemoryError):
            for _ in range(3):
                act(rng, world)
                _ = [[] for _ in range(rng.randrange(10000))]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        world.limited = limited
    world.note_sealed()


def limit_address_space(rng: Random, world: World) -> None:
    """For the rest of the case. A MemoryError of the program's own ends it from now on."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = _address_space_bytes() + rng.choice((2**22, 2**24, 2**26))
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    world.limited = True


def scarce_scratch(rng: Random, world: World) -> None:
    """The check build can have the extension's own allocations fail."""
    if not hasattr(_native, "fail_scratch_after"):
        return
    _native.fail_scratch_after(rng.randrange(40))
    try:
        for _ in range(3):
            act(rng, world)
    finally:
        _native.fail_scratch_after(-1)


def check(rng: Random, world: World) -> None:
    world.check()


def forget_generics() -> None:
    """Empty typing's caches, which keep each class that was subscripted."""
    for clear in typing._cleanups:  # type: ignore[attr-defined]
        clear()


def reckon(rng: Random, world: World) -> None:
    """Full collections until finalizers have run: nothing that is dead may be left."""
    with_frozen = rng.random() < 0.5
    collect: Callable[[], int] = (
        partial(pasture.collect, frozen=True) if with_frozen else gc.collect
    )
    if not with_frozen and rng.random() < 0.5:
        collect = pasture.collect
    skipped = pasture.gc.history().skipped
    forget_generics()
    try:
        for _ in range(4):
            collect()
    except pasture.UnsupportedInterpreter:
        return
    world.check()
    if pasture.gc.history().skipped > skipped:  # no memory: the built-in one leaves frozen out
        with_frozen = False
    lost = world.lost_garbage(with_frozen)
    if lost:
        kinds = ", ".join(f"{node.number} ({node.kind})" for node in lost[:5])
        raise Broken(f"{collect} did not find {len(lost)} nodes of garbage: {kinds}")


OPERATIONS: dict[str, Callable[[Random, World], None]] = {
    function.__name__: function
    for function in (
        *(hold, drop, link, unlink, churn, fill, empty, run_code, walk, act, moment, tool),
        *(start_thread, end_threads, busy_threads, meddling_threads, low_memory),
        *(limit_address_space, scarce_scratch, start_interpreter, use_interpreter),
        *(end_interpreter, check, reckon),
    )
}
