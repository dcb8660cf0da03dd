"""A case: a seed, and the operations that follow from it.

Pure: the driver makes cases and shortens them, the program (program.py) carries them out.
An operation is data with a seed of its own, so that any part of a list still means something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

WEIGHTS = {
    "hold": 30,
    "drop": 14,
    "link": 6,
    "unlink": 3,
    "churn": 6,
    "fill": 6,
    "empty": 3,
    "run_code": 6,
    "walk": 2,
    "act": 14,
    "moment": 10,
    "tool": 4,
    "start_thread": 2,
    "end_threads": 2,
    "busy_threads": 1,
    "meddling_threads": 1,
    "start_interpreter": 0.3,
    "use_interpreter": 0.3,
    "end_interpreter": 1.5,
    "fork": 3,
    "low_memory": 1,
    "limit_address_space": 0.1,
    "scarce_scratch": 1,
    "check": 6,
    "reckon": 5,
}
"""How often each operation is drawn, by its name in operations.py."""

NESTED = ("fork",)
MAX_FORK_DEPTH = 3
LENGTHS = (40, 120, 250)

BATCH = 16
"""Cases that are forked from one process, and so share its setting."""

MALLOCS = (*[""] * 6, "pymalloc", "malloc", "debug", "malloc_debug", "mimalloc")
LONGEST = (*[60] * 12, *[600] * 4, 20_000, 100_000)


@dataclass(frozen=True, slots=True)
class Setting:
    """What the process of a batch is started with.

    Attributes:
        hash_seed: PYTHONHASHSEED.
        malloc: PYTHONMALLOC; empty for the interpreter's own choice.
        large: it imports large modules and third parties, which makes its heap large.
    """

    hash_seed: int
    malloc: str
    large: bool


def setting_of(seed: int) -> Setting:
    """The setting of a seed's batch, always the same one."""
    rng = Random(f"setting {seed // BATCH}")
    return Setting(rng.getrandbits(32), rng.choice(MALLOCS), rng.random() < 0.25)


def longest_of(seed: int) -> int:
    """How long the containers of a seed may be: short in most cases, so that many are run."""
    return Random(f"longest {seed}").choice(LONGEST)


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a case.

    Attributes:
        name: a key of `WEIGHTS`.
        seed: decides everything that the operation draws.
        nested: what a forked child does.
    """

    name: str
    seed: int
    nested: tuple[Operation, ...] = ()

    def as_json(self) -> list[Any]:
        return [self.name, self.seed, [each.as_json() for each in self.nested]]

    @classmethod
    def from_json(cls, data: list[Any]) -> Operation:
        name, seed, nested = data
        return cls(name, seed, tuple(map(cls.from_json, nested)))


def generate(seed: int) -> tuple[Operation, ...]:
    """The operations of a seed, always the same ones."""
    rng = Random(seed)
    return tuple(_draw(rng, rng.choice(LENGTHS), 0))


def _draw(rng: Random, count: int, depth: int) -> Iterator[Operation]:
    names = [name for name in WEIGHTS if depth < MAX_FORK_DEPTH or name not in NESTED]
    weights = [WEIGHTS[name] for name in names]
    for name in rng.choices(names, weights, k=count):
        seed = rng.getrandbits(32)
        inner = tuple(_draw(rng, rng.randrange(2, 40), depth + 1)) if name in NESTED else ()
        yield Operation(name, seed, inner)


def count(operations: Iterable[Operation]) -> int:
    """How many operations there are, those of children included."""
    return sum(1 + count(each.nested) for each in operations)
