"""Operations with sub-interpreters, which live beside the main one until the case ends them.

They end before the case does and before it forks: CPython itself, without pasture, crashes or
hangs in a child that was forked while there were some (3.12.1, 3.14.10).
"""

from __future__ import annotations

import importlib
import sys
from random import Random
from typing import Any

from world import World

_MODULE = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
_interpreters: Any = importlib.import_module(_MODULE)

MAX_ALIVE = 2

alive: list[Any] = []

_PROGRAM = """
import gc
class Node:
    def __del__(self):
        pass
kept = [{"number": i} for i in range(200)]
for i in range(50):
    node = Node()
    node.itself = node
try:
    import pasture
except ImportError:
    pass
"""


def _run(interpreter: Any, program: str) -> None:
    done = _interpreters.run_string(interpreter, program)
    if done is not None:
        raise AssertionError(f"in a sub-interpreter: {done}")


def start_interpreter(rng: Random, world: World) -> None:
    if not world.limited and len(alive) < MAX_ALIVE:  # it reports no memory in many ways
        alive.append(_interpreters.create())
        _run(alive[-1], _PROGRAM)


def use_interpreter(rng: Random, world: World) -> None:
    if alive and not world.limited:
        _run(rng.choice(alive), "gc.collect(); kept.append([kept, 'text', 1.5])")


def end_interpreter(rng: Random, world: World) -> None:
    while alive:
        _interpreters.destroy(alive.pop())
