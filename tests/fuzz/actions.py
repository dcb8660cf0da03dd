"""What pasture and the collector are asked to do at random moments."""

from __future__ import annotations

import dataclasses
import gc
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import NoReturn

import interpreters
from world import World

import pasture
import pasture.gc
from pasture import _native
from pasture.sealing import gc_settings

Action = Callable[[Random, World], object]

CHILD_FAILED = 78

_REFUSALS = (MemoryError, NotImplementedError, pasture.PastureError)
"""What an action may answer. Anything else that it raises is a failure."""


def seal(rng: Random, world: World) -> None:
    policy = pasture.POLICIES[rng.choice(("seal", "seal", "seal", *pasture.POLICIES))]
    if rng.random() < 0.1:
        policy = dataclasses.replace(policy, name="finalizing", at_exit=())
    snapshot = (
        Path(tempfile.gettempdir(), f"fuzz-{os.getpid()}.snapshot") if rng.random() < 0.05 else None
    )
    try:
        pasture.seal(policy, allow_threads=rng.random() < 0.5, snapshot=snapshot)
    finally:
        world.note_sealed()
        if snapshot is not None:
            snapshot.unlink(missing_ok=True)
            snapshot.with_suffix(".json").unlink(missing_ok=True)


def _one_step(rng: Random, world: World) -> None:
    names = ("precompute_types", "gather_code", "immortalize", "plug_malloc", "plug_pymalloc")
    try:
        getattr(_native, rng.choice(names))()
    finally:
        world.note_sealed()


def freeze(rng: Random, world: World) -> None:
    gc.freeze()
    world.note_frozen(True)


def _unfreeze(rng: Random, world: World) -> None:
    gc.unfreeze()
    world.note_frozen(False)


def _set_threshold(rng: Random, world: World) -> None:
    thresholds = ((0,), (1, 1, 1), (5, 2, 1), (50, 2, 2), (700, 10, 10), (2000, 10, 0), (300, 3, 0))
    gc.set_threshold(*rng.choice(thresholds))


def _save_all(rng: Random, world: World) -> None:
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        (gc.collect if rng.random() < 0.5 else pasture.collect)()
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        for node in world.nodes.values():  # met a collection once, are not finalized again
            node.stays = True


def _walk_lists(rng: Random, world: World) -> None:
    for each in gc.get_objects(generation=rng.choice((None, 0, 1, 2))):
        gc.is_tracked(each)
        gc.get_referents(each)


def _count_references(rng: Random, world: World) -> None:
    for number in world.reachable()[:20]:
        token = world.nodes[number].observer()
        if not 0 < sys.getrefcount(token) < 2**63:
            raise AssertionError(f"{token!r} has {sys.getrefcount(token)} references")


def _fork(rng: Random, world: World) -> None:
    """A child that collects at once, of whichever thread this is, in whatever it is in."""
    if interpreters.alive or world.crowded:
        return
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _be_child(rng, world)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    if ended:
        raise AssertionError(f"a child that was forked in an action ended with {ended}")


def _be_child(rng: Random, world: World) -> NoReturn:
    try:
        with suppress(*_REFUSALS):
            rng.choice((gc.collect, pasture.collect, partial(seal, rng, world)))()
        if world.steady:
            world.check()
        gc.collect()
    except BaseException:
        traceback.print_exc()
        os._exit(CHILD_FAILED)
    os._exit(0)


def _fork_by_thread(rng: Random, world: World) -> None:
    if world.limited:
        return
    failed: list[BaseException] = []

    def run() -> None:
        try:
            _fork(rng, world)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


ACTIONS: dict[Action, int] = {
    _fork: 2,
    _fork_by_thread: 2,
    seal: 4,
    _one_step: 1,
    freeze: 1,
    _unfreeze: 1,
    _set_threshold: 3,
    _save_all: 1,
    _walk_lists: 1,
    _count_references: 1,
    lambda rng, world: gc.collect(rng.randrange(3)): 6,
    lambda rng, world: pasture.collect(): 6,
    lambda rng, world: pasture.collect(frozen=True): 4,
    lambda rng, world: pasture.gc.install(): 3,
    lambda rng, world: pasture.gc.uninstall(): 2,
    lambda rng, world: pasture.gc.collect_between_requests(): 2,
    lambda rng, world: pasture.gc.history(): 1,
    lambda rng, world: gc.enable(): 2,
    lambda rng, world: gc.disable(): 1,
    lambda rng, world: _native.trim(): 1,
    lambda rng, world: _native.trim_after_collections(rng.random() < 0.5): 1,
    lambda rng, world: _native.forget_frozen(): 1,
    lambda rng, world: _native.adapt_thresholds(): 1,
    lambda rng, world: _native.end_adapting_thresholds(): 1,
    lambda rng, world: _native.keep_code_runs(rng.random() < 0.5): 1,
    lambda rng, world: _native.forget_code_runs(): 1,
    lambda rng, world: _native.choose_code(rng.randbytes(8 * rng.randrange(9))): 1,
    lambda rng, world: _native.choose_code(_native.code_that_ran()[:: rng.choice((1, -1))]): 1,
    lambda rng, world: _native.files(): 1,
    lambda rng, world: _native.note_frozen_files(): 1,
    lambda rng, world: gc_settings.run_full_out_of_line(): 1,
}


def act(rng: Random, world: World) -> None:
    """Take one action. What it refuses is no failure."""
    action = rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
    with suppress(*_REFUSALS):
        action(rng, world)
