"""One heap, collected by turns: `python programs/collect.py HEAP OBJECTS ROUNDS`.

Prints JSON: the times of each full collection, built in and out of line, or what one made
private in a forked child ("child"), or the pauses of automatic ones ("pauses-...").
"""

from __future__ import annotations

import gc
import json
import os
import platform
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import pasture.gc
from pasture.proc.smaps import own_private_bytes


class Item:
    def __init__(self, number: int) -> None:
        self.number = number
        self.numbers = [number, self]
        self.named = {"numbers": self.numbers}


class Pair:
    def __init__(self) -> None:
        self.other = [self]


def ordered(objects: int) -> Any:
    return [Item(i) for i in range(objects // 3)]


def shuffled(objects: int) -> Any:
    heap = ordered(objects)
    random.Random(1).shuffle(heap)
    return heap


def tuples(objects: int) -> Any:
    tracked: list[Any] = []
    return [(tracked, i) for i in range(objects)]


def django(objects: int) -> Any:
    sys.path.insert(0, "demo")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "meadow.settings")
    import django.core.handlers.wsgi

    django.setup()
    return django.core.handlers.wsgi.WSGIHandler()


HEAPS: dict[str, Callable[[int], Any]] = {
    "ordered": ordered,
    "shuffled": shuffled,
    "cycles": lambda objects: [Pair() for _ in range(objects // 2)],
    "tuples": tuples,
    "django": django,
}


def litter(heap: list[Any]) -> None:
    """Replace every other cycle, so that half of what was there is garbage."""
    for i in range(0, len(heap), 2):
        heap[i] = Pair()


def timed(collect: Callable[[], int]) -> dict[str, float]:
    wall, processor = time.perf_counter(), time.thread_time()
    found = collect()
    return {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.thread_time() - processor,
        "found": found,
    }


def paired(name: str, objects: int, rounds: int) -> dict[str, Any]:
    gc.disable()
    heap = HEAPS[name](objects)
    gc.collect()
    tracked = len(gc.get_objects())
    times: dict[str, list[dict[str, float]]] = {"builtin": [], "outline": []}
    collectors: dict[str, Callable[[], int]] = {
        "builtin": gc.collect,
        "outline": pasture.gc.collect,
    }
    for number in range(rounds + 1):
        for key in sorted(collectors, reverse=number % 2 == 0):
            if name == "cycles":
                litter(heap)
            once = timed(collectors[key])
            if number:  # the first round warms up
                times[key].append(once)
    history = pasture.gc.history()
    return {
        **times,
        "tracked": tracked,
        "scratch_bytes": history.scratch_bytes,
        "remainder": history.remainder,
    }


def child(objects: int) -> dict[str, Any]:
    """What a collection of a heap without garbage makes private, in a forked child each."""
    heap = ordered(objects)
    gc.collect()
    found: dict[str, Any] = {"tracked": len(gc.get_objects())}
    for key, collect in (("builtin", gc.collect), ("outline", pasture.gc.collect)):
        ours, theirs = os.pipe()
        if os.fork() == 0:
            own_private_bytes()
            before = own_private_bytes()
            collect()
            os.write(theirs, str(own_private_bytes() - before).encode())
            os._exit(0)
        os.wait()
        found[key] = int(os.read(ours, 64))
    assert heap
    return found


def pauses(objects: int, installed: bool) -> dict[str, Any]:
    """Automatic collections while a heap of `objects` grows to twice its size."""
    if installed:
        pasture.gc.install()
    heap = ordered(objects)
    gc.collect()
    starts: list[float] = []
    lengths: list[tuple[int, float]] = []

    def watch(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            starts.append(time.perf_counter())
        else:
            lengths.append((info["generation"], time.perf_counter() - starts.pop()))

    gc.callbacks.append(watch)
    started = time.perf_counter()
    heap += ordered(objects)
    seconds = time.perf_counter() - started
    gc.callbacks.remove(watch)
    return {
        "full_s": [length for generation, length in lengths if generation == 2],
        "young_s": sum(length for generation, length in lengths if generation < 2),
        "seconds": seconds,
    }


def main() -> None:
    name, objects, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if name == "child":
        found = child(objects)
    elif name.startswith("pauses"):
        found = pauses(objects, name == "pauses-outline")
    else:
        found = paired(name, objects, rounds)
    print(json.dumps({**found, "version": platform.python_version()}))


if __name__ == "__main__":
    main()
