"""Takes note of the seeding of generators of random numbers, while a process loads for others.

A `random.Random` is seen as it is seeded. Entropy that Python code draws is noted: numpy's
generators keep theirs, which says that they have drawn it. torch says what its generator was
seeded with, and is asked while it is imported.

What is patched for that is the standard library's, and put back.
"""

from __future__ import annotations

import os
import posix
import random
import sys
from typing import Any
from weakref import WeakSet

_MAX_BYTES = 64
_MAX_NOTED = 4096
"""Draws of entropy in a process that observes for as long as it lives."""


class Observer:
    """Takes note of what is seeded, while it is installed."""

    def __init__(self) -> None:
        self.depth = 0
        self.made: WeakSet[random.Random] = WeakSet()  # last seeded without a seed
        self.entropy: dict[bytes, None] = {}
        self.draws = 0  # of entropy, noted or not
        self.torch_seed: int | None = None
        self.had_numpy = False  # before this process observed for the first time
        self._plain: tuple[Any, ...] = ()

    def install(self) -> None:
        seed, setstate, urandom = plain = (
            random.Random.seed,
            random.Random.setstate,
            vars(random)["_urandom"],
        )
        if not self._plain:
            self.had_numpy = "numpy.random.mtrand" in sys.modules
        self._plain = plain

        # A module that is loaded meanwhile may keep one of these for good.
        def noting_seed(self_: random.Random, a: Any = None, version: int = 2) -> None:
            seed(self_, a, version)
            self._note(self_, a is None)

        def noting_setstate(self_: random.Random, state: Any) -> None:
            setstate(self_, state)
            self._note(self_, False)

        def noting_urandom(size: int) -> bytes:
            if not self.depth:
                return posix.urandom(size)
            drawn: bytes = urandom(size)
            self.draws += 1
            if size <= _MAX_BYTES and len(self.entropy) < _MAX_NOTED:
                self.entropy[drawn] = None
            return drawn

        random.Random.seed = noting_seed  # type: ignore[assignment, method-assign]
        random.Random.setstate = noting_setstate  # type: ignore[assignment, method-assign]
        vars(random)["_urandom"] = os.urandom = noting_urandom
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        seed, setstate, urandom = self._plain
        random.Random.seed = seed  # type: ignore[method-assign]
        random.Random.setstate = setstate  # type: ignore[method-assign]
        vars(random)["_urandom"] = os.urandom = urandom
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self.entropy.clear()

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        """Find nothing; ask torch for its seed as long as it imports its own modules."""
        if name.startswith("torch.") and self.torch_seed is None:
            self.torch_seed = seed_of_torch()

    def _note(self, generator: random.Random, by_itself: bool) -> None:
        if by_itself and self.depth:
            self.made.add(generator)
        else:
            self.made.discard(generator)


def torch_generator() -> Any:
    """The generator of torch's for the processor; None without it. Those of devices begin alike."""
    return getattr(sys.modules.get("torch._C"), "default_generator", None)


def seed_of_torch() -> int | None:
    """What it was seeded with last."""
    generator = torch_generator()
    return None if generator is None else generator.initial_seed()
