"""numpy's generators of random numbers: those that drew their own seed, and a new seed for them.

numpy seeds a generator with 128 bits of entropy, drawn by Python code, unless it is given a seed.
So a generator is its own if its seed sequence has entropy that was drawn in this process. Owns that
comparison. Does not import numpy.

Where a state shows that the program has set it later (`_FIXED`), the generator is the program's.
A Mersenne twister and SFC64 do not show it: `set_state` after an own seed is not seen.

Source: numpy 2.5 bit_generator.pyx (`SeedSequence`), _mt19937.pyx (`_legacy_seeding`).
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Iterable
from typing import Any

ENTROPY_BYTES = 16

_FIXED = {"PCG64": "inc", "PCG64DXSM": "inc", "Philox": "key"}
"""The part of a generator's state that its seed determines and drawing does not change."""


class Found(
    namedtuple(
        "Found",
        "entropy sequences bit_generators legacy is_seeded",
        defaults=(frozenset(), (), (), (), False),
    )
):
    """The generators of this process that have drawn their seed.

    Attributes:
        entropy: the entropy of their seeds.
        sequences: seed sequences that have drawn their entropy.
        bit_generators: bit generators that were seeded by it.
        legacy: their `RandomState` objects, which keep a number for later.
        is_seeded: the program has seeded the generator of `numpy.random`'s functions.
    """

    __slots__ = ()

    def renew(self) -> Found:
        """Draw new entropy for all; generators with common entropy get common entropy again."""
        if not self.bit_generators and not self.sequences:
            return self
        kind = vars(sys.modules["numpy.random.bit_generator"])["SeedSequence"]
        new: dict[int, int] = {}
        for one in self.sequences:
            if one.entropy not in new:
                new[one.entropy] = kind().entropy
            one.__init__(
                new[one.entropy],
                spawn_key=one.spawn_key,
                pool_size=one.pool_size,
                n_children_spawned=one.n_children_spawned,
            )
        drawn = frozenset(new.values())
        for one in self.bit_generators:
            if _entropy_of(one) in drawn:  # else the program has seeded it since
                one.state = type(one)(one._seed_seq).state
        for one in self.legacy:
            bits = one._bit_generator
            if _entropy_of(bits) in drawn and bits.lock.acquire(blocking=False):
                bits.lock.release()  # a thread may have held the old one at the fork
                one.set_state({**one.get_state(legacy=False), "has_gauss": 0, "gauss": 0.0})
        return self._replace(entropy=drawn)


def find(entropy: Iterable[bytes], before: Found) -> Found:
    """The generators seeded by drawn entropy, and those found `before` the seal."""
    bits = sys.modules.get("numpy.random.bit_generator")
    mtrand = sys.modules.get("numpy.random.mtrand")
    ours = (one for one in entropy if len(one) == ENTROPY_BYTES)
    drawn = {*before.entropy, *(int.from_bytes(one, "big") for one in ours)}
    if bits is None or mtrand is None or not drawn:
        return before
    sequences = [
        one
        for one in _all(vars(bits)["SeedSequence"], before.sequences)
        if _number(one.entropy) in drawn
    ]
    bit_generators = [
        one
        for one in _all(vars(bits)["BitGenerator"], before.bit_generators)
        if _entropy_of(one) in drawn and not _is_set(one)
    ]
    ids = set(map(id, bit_generators))
    legacy = _all(vars(mtrand)["RandomState"], before.legacy)
    return Found(
        frozenset(one.entropy for one in sequences),
        tuple(sequences),
        tuple(bit_generators),
        tuple(one for one in legacy if id(one._bit_generator) in ids),
        is_seeded=id(vars(mtrand)["_rand"]._bit_generator) not in ids,
    )


def _all(kind: type, known: Iterable[Any]) -> Iterable[Any]:
    """All objects of a kind in this process, and the known ones, which may be frozen."""
    from pasture.fork_safety.library import instances  # images without numpy have none of it

    return {id(one): one for one in (*instances((kind,)), *known)}.values()


def _entropy_of(bit_generator: Any) -> int | None:
    """The number that a generator was seeded with; None without a seed sequence."""
    # `numpy.random.seed` leaves it without a sequence.
    return _number(getattr(getattr(bit_generator, "_seed_seq", None), "entropy", None))


def _number(entropy: object) -> int | None:
    return entropy if type(entropy) is int else None  # or another object of the program's


def _is_set(one: Any) -> bool:
    """Whether the program has set the state of a generator that had drawn its seed."""
    part = _FIXED.get(type(one).__name__)
    if part is None:
        return False
    fresh, now = type(one)(one._seed_seq).state["state"][part], one.state["state"][part]
    return bool((fresh != now) if isinstance(now, int) else (fresh != now).any())
