"""Builds object graphs and collects them: `python graph_program.py builtin|outline|installed`.

One line of JSON in, a graph (test_graphs.py); one line out, what a full collection did to it:
its return value, every event in its order, and which nodes are alive after it.
"""

from __future__ import annotations

import gc
import json
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pasture.gc

Events = list[list[Any]]


class Plain:
    def __init__(self, number: int, world: World) -> None:
        self.number = number
        self.world = world
        self.held: list[Any] = []


class Slotted:
    __slots__ = ("__weakref__", "held", "number", "world")

    def __init__(self, number: int, world: World) -> None:
        self.number = number
        self.world = world
        self.held: list[Any] = []


class Finalized(Plain):
    def __del__(self) -> None:
        self.world.events.append(["finalized", self.number])


class Resurrected(Finalized):
    def __del__(self) -> None:
        super().__del__()
        self.world.saved.append(self)


class Freeing(Finalized):
    """Its finalizer breaks the cycles it is part of, and makes new ones."""

    def __del__(self) -> None:
        super().__del__()
        self.held.clear()
        litter: list[Any] = []
        litter.append(litter)


class Collecting(Finalized):
    def __del__(self) -> None:
        super().__del__()
        self.world.events.append(["nested", gc.collect(), pasture.gc.collect()])


NODES = {each.__name__: each for each in (Plain, Slotted, Finalized, Resurrected, Freeing)}
NODES["Collecting"] = Collecting


class World:
    """What is not part of the graph: the collector under test never finds it dead."""

    def __init__(self) -> None:
        self.events: Events = []
        self.saved: list[Any] = []
        self.references: list[Any] = []


def suspended(target: Any, events: Events, number: int) -> Iterator[Any]:
    try:
        yield target
    finally:
        events.append(["closed", number])


def link(kind: str, source: Any, target: Any, world: World) -> Any:
    """An object that refers to `target`, to be held by `source`."""
    if kind == "list":
        return [target, []]
    if kind == "tuple":
        return (target, ("text",))
    if kind == "key":
        return {target: None, "k": source}
    if kind == "value":
        return {1: target, "k": None}
    if kind == "set":
        return {target}
    if kind == "closure":
        return lambda: (source, target)
    if kind == "generator":
        generator = suspended(target, world.events, source.number)
        next(generator)
        return generator
    if kind == "method":
        return target.held.append
    if kind == "class":
        return type("Class", (), {"target": target})
    if kind == "weak":
        number = target.number
        return weakref.ref(target, lambda ref: world.events.append(["inside", number]))
    return target


def build(graph: dict[str, Any], world: World) -> list[Any]:
    """Returns the nodes' observers: weak references without a callback."""
    nodes: list[Any] = []
    for number, (kind, generation) in enumerate(graph["nodes"]):
        nodes.append(NODES[kind](number, world))
        if generation >= 0:
            gc.collect(generation)
    for source, target, kind in graph["edges"]:
        held = link(kind, nodes[source], nodes[target], world)
        nodes[source].held.append(held)
    for number in graph["watched"]:
        event = ["outside", number]
        world.references.append(
            weakref.ref(nodes[number], lambda ref, event=event: world.events.append(event))
        )
    world.saved.extend(nodes[number] for number in graph["alive"])
    return [weakref.ref(node) for node in nodes]


def run(graph: dict[str, Any], collect: Callable[[], int]) -> dict[str, Any]:
    world = World()
    observers = build(graph, world)
    collections = []
    for _ in range(2):  # the second meets what finalizers left behind
        before = gc.get_stats()[2]
        unreachable = collect()
        after = gc.get_stats()[2]
        grown = [after[key] - before[key] for key in ("collections", "collected")]
        dead = [number for number, ref in enumerate(observers) if ref() is None]
        collections.append([unreachable, grown, gc.get_count()[1:], list(world.events), dead])
        world.events.clear()
    tracked = [gc.is_tracked(each.held) for each in world.saved]
    missed = gc.collect()  # by the built-in collector, unless that was replaced for good
    return {
        "collections": collections,
        "tracked": tracked,
        "garbage": len(gc.garbage),
        "missed": missed,
    }


def main() -> None:
    how = sys.argv[1]
    if how == "installed":
        pasture.gc.install()
    collect = pasture.gc.collect if how == "outline" else gc.collect
    gc.disable()
    for line in sys.stdin:
        # Finalizers may have kept something of the last graph alive; a collection whose objects
        # all come to life again returns 0, so its result does not say that it was the last.
        for _ in range(3):
            gc.collect()
        print(json.dumps(run(json.loads(line), collect)), flush=True)


if __name__ == "__main__":
    main()
