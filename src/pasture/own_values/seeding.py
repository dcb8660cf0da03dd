"""Records the seeding of generators of random numbers, while a process loads for its children.

Records the seeding of each `random.Random`, and the entropy that Python code draws: a seed equal to
it is not the program's choice. numpy's generators keep their entropy. torch reports the seed of its
generator while it is imported. Patches only the standard library, and restores it. Does not see a
seed that was derived from entropy, as its hash or its digits.
"""

from __future__ import annotations

import os
import posix
import random
import sys
from _weakref import ref
from collections.abc import Iterable
from typing import Any, Literal

from pasture.observing import Finder
from pasture.own_values.numpy_generators import ENTROPY_BYTES

_NUMPY = "numpy.random.mtrand"
_BYTES = range(8, 65)
"""Least number of bytes of entropy to note: fewer may equal a seed of the program's choice."""

_MAX_NOTED = 4000
"""Largest number of draws of entropy that are kept between two settlements."""


class Observer:
    """Records seeds, while it is installed."""

    def __init__(self) -> None:
        self.depth = 0
        self.entropy: dict[bytes, None] = {}
        self.torch_seed: int | None = None
        self._made: dict[int, ref[random.Random]] = {}
        self.had_numpy: bool | None = None  # before the first observation
        self._patches: list[tuple[Any, str, Any, Any]] = []
        self._finder = Finder(self._ask_torch)

    @property
    def made(self) -> list[random.Random]:
        """Python's generators whose last seed was not the program's choice."""
        there = (one() for one in list(self._made.values()))
        return [one for one in there if one is not None]

    def install(self) -> None:
        if self.had_numpy is None:
            self.had_numpy = _NUMPY in sys.modules
        kind: Any = random.Random
        seed, setstate, urandom = kind.seed, kind.setstate, vars(random)["_urandom"]

        # A module that is loaded meanwhile may keep one of these functions.
        def noting_seed(self_: random.Random, a: Any = None, version: int = 2) -> None:
            seed(self_, a, version)
            self._note(self_, a is None or self._is_drawn(a))

        def noting_setstate(self_: random.Random, state: Any) -> None:
            setstate(self_, state)
            self._note(self_, False)

        def noting_urandom(size: int) -> bytes:
            if not self.depth:
                return posix.urandom(size)
            drawn: bytes = urandom(size)
            if size in _BYTES and len(self.entropy) < _MAX_NOTED:
                self.entropy[drawn] = None
            return drawn

        self._patch(kind, "seed", noting_seed)
        self._patch(kind, "setstate", noting_setstate)
        self._patch(random, "_urandom", noting_urandom)
        self._patch(os, "urandom", noting_urandom)
        self._finder.install()

    def _patch(self, owner: Any, name: str, noting: Any) -> None:
        self._patches.append((owner, name, getattr(owner, name), noting))
        setattr(owner, name, noting)

    def remove(self) -> None:
        for owner, name, plain, noting in self._patches:
            if getattr(owner, name) is noting:  # else the program has replaced it
                setattr(owner, name, plain)
        self._patches.clear()
        self._finder.remove()

    def keep(self, numbers: Iterable[int]) -> None:
        """Forget the noted entropy, except that of numpy's generators."""
        self.entropy.clear()
        self.entropy.update((one.to_bytes(ENTROPY_BYTES), None) for one in numbers)

    def _ask_torch(self, name: str) -> None:
        """Read torch's seed, as long as torch imports its own modules."""
        if name.startswith("torch.") and self.torch_seed is None:
            self.torch_seed = seed_of_torch()

    def _is_drawn(self, seed: object) -> bool:
        """Whether a seed is the bytes of `os.urandom` or `secrets`, or their number."""
        if type(seed) is int:
            orders: tuple[Literal["big", "little"], ...] = ("big", "little")
            return any(seed == int.from_bytes(one, by) for one in self.entropy for by in orders)
        return isinstance(seed, (bytes, bytearray)) and bytes(seed) in self.entropy

    def _note(self, generator: random.Random, by_itself: bool) -> None:
        key = id(generator)  # other classes may compare and hash differently
        self._made.pop(key, None)
        if by_itself and self.depth:
            made = self._made
            made[key] = ref(generator, lambda one: made.pop(key) if made.get(key) is one else None)


def torch_generator() -> Any:
    """torch's generator for the processor, or None. Generators of devices begin alike."""
    return getattr(sys.modules.get("torch._C"), "default_generator", None)


def seed_of_torch() -> int | None:
    """The last seed of torch's generator."""
    generator = torch_generator()
    return None if generator is None else generator.initial_seed()
