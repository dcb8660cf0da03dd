"""Operations with other threads: some wait, some allocate and collect, some meddle with gc."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from actions import act
from holders import filling
from world import Broken, World

import pasture


class Waiting:
    """A thread that has allocated something and waits outside of Python."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.go_on = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.ready.wait()

    def run(self) -> None:
        kept = [[number] for number in range(100)]
        self.ready.set()
        self.go_on.wait()
        if kept != [[number] for number in range(100)]:
            raise Broken("a waiting thread's list has other contents")

    def end(self) -> None:
        self.go_on.set()
        self.thread.join()


waiting: list[Waiting] = []


def leave_threads() -> None:
    """In a forked child: threads do not survive a fork."""
    waiting.clear()


def start_thread(rng: Random, world: World) -> None:
    if len(waiting) < 3 and not world.limited:
        waiting.append(Waiting())


def end_threads(rng: Random, world: World) -> None:
    while waiting:
        waiting.pop().end()


def _be_busy(seed: int) -> None:
    rng = Random(seed)
    kept: list[Any] = []
    for _ in range(rng.randrange(5, 40)):
        kept.append(made := [filling(rng, 50), {}])
        made.append(made)
        if rng.random() < 0.3:
            kept.clear()
        if rng.random() < 0.2:
            with suppress(MemoryError, pasture.UnsupportedInterpreter):
                rng.choice((gc.collect, pasture.collect))()


def _meddle(seed: int) -> None:
    """What libraries do around a piece of work of theirs, and set back."""
    rng = Random(seed)
    for _ in range(rng.randrange(3, 20)):
        before = gc.get_threshold()
        rng.choice((gc.disable, gc.freeze, gc.unfreeze, lambda: gc.set_threshold(3, 1, 1)))()
        kept: list[Any] = [[number] for number in range(rng.randrange(300))]
        with suppress(MemoryError):
            rng.choice((list, gc.collect, gc.get_objects, partial(kept.append, kept)))()
        gc.set_threshold(*before)
        gc.enable()


def meddling_threads(rng: Random, world: World) -> None:
    """Thresholds, `freeze` and `disable` change while this one acts."""
    if world.limited:
        return
    works = [partial(_meddle, rng.getrandbits(32)) for _ in range(2)]
    world.crowded = True
    try:
        _run_beside(works, partial(act, rng, world))
    finally:
        world.crowded = False
    gc.unfreeze()
    world.note_frozen(False)


def _run_beside(works: Sequence[Callable[[], object]], act: Callable[[], object]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    try:
        act()
    finally:
        for thread in threads:
            thread.join()


def busy_threads(rng: Random, world: World) -> None:
    if world.limited:
        return
    works = [partial(_be_busy, rng.getrandbits(32)) for _ in range(3)]
    world.crowded = True
    try:
        with suppress(MemoryError, pasture.UnsupportedInterpreter):
            _run_beside(works, partial(pasture.collect, frozen=rng.random() < 0.5))
    finally:
        world.crowded = False
