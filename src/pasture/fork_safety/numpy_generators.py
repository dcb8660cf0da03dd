"""numpy's generators of random numbers: which of them have drawn their own seed, and a new one.

numpy seeds a generator with 128 bits of entropy, drawn by Python code, unless it is given a seed.
So a generator is its own if its seed sequence has entropy that was drawn in this process, or, for
the Mersenne twister, which may be seeded and set later, if its state comes in the course of one
that is seeded so. Owns that comparison. Nothing is imported: numpy is there or is not.

Source: numpy 2.5 bit_generator.pyx (`SeedSequence`), _mt19937.pyx (`_legacy_seeding`).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

ENTROPY_BYTES = 16

_ROUND = 624
"""Numbers that the Mersenne twister makes of one state."""

_ROUNDS, _ROUNDS_AT_ONCE = 20_000, 100
"""That may have been drawn since it was seeded: some 0.1 s for a generator."""

_WORDS = 4
"""Of a state that are compared: 128 bits."""

_FIXED = {"PCG64": "inc", "PCG64DXSM": "inc", "Philox": "key"}
"""The part of a generator's state that its seed decides, and that drawing leaves as it is."""


@dataclass(frozen=True)
class Found:
    """The generators of this process that have drawn their seed.

    Attributes:
        entropy: that they were seeded with.
        sequences: seed sequences that have drawn their entropy.
        bit_generators: those of generators that were seeded by it.
        legacy: `RandomState` objects of those, which keep a number for later.
        is_seeded: the program has seeded the generator of `numpy.random`'s functions.
    """

    entropy: frozenset[int] = frozenset()
    sequences: tuple[Any, ...] = ()
    bit_generators: tuple[Any, ...] = ()
    legacy: tuple[Any, ...] = ()
    is_seeded: bool = False

    def renew(self) -> Found:
        """Draw new entropy for all of them; returns them with it.

        Those that had it in common have it in common again.
        """
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
        drawn = set(new.values())
        for one in self.bit_generators:
            sequence = _sequence_of(one)
            if _entropy_of(sequence) not in drawn:  # seeded by the functions of old
                sequence = kind()
                drawn.add(sequence.entropy)
            one.state = type(one)(sequence).state
        for one in self.legacy:
            if _bits_of(one).lock.acquire(blocking=False):  # else a thread had it at the fork
                _bits_of(one).lock.release()
                one.set_state({**one.get_state(legacy=False), "has_gauss": 0, "gauss": 0.0})
        return replace(self, entropy=frozenset(drawn))


def find(entropy: Iterable[bytes], before: Found) -> Found:
    """The generators that were seeded by entropy that this process has drawn.

    In the parent, before its objects are frozen.

    Args:
        entropy: that was drawn since.
        before: those that were found then.
    """
    bits = sys.modules.get("numpy.random.bit_generator")
    mtrand = sys.modules.get("numpy.random.mtrand")
    ours = (one for one in entropy if len(one) == ENTROPY_BYTES)
    drawn = {*before.entropy, *(int.from_bytes(one, "big") for one in ours)}
    if bits is None or mtrand is None or not drawn:
        return before
    kinds = (vars(bits)["SeedSequence"], vars(bits)["BitGenerator"], vars(mtrand)["RandomState"])
    sequences, bit_generators, legacy = _objects(
        kinds, (*before.sequences, *before.bit_generators, *before.legacy)
    )
    own = tuple(one for one in sequences if _entropy_of(one) in drawn)
    course = _Course(vars(mtrand)["_MT19937"], kinds[0], drawn)
    seeded_so = tuple(one for one in bit_generators if _is_own(one, drawn, course))
    ids = {id(one) for one in seeded_so}
    return Found(
        frozenset((*map(_entropy_of, own), *course.met)),
        own,
        seeded_so,
        tuple(one for one in legacy if id(_bits_of(one)) in ids),
        is_seeded=id(_bits_of(vars(mtrand)["_rand"])) not in ids,
    )


class _Course:
    """The states that Mersenne twisters come to that were seeded by entropy, from the first on.

    Attributes:
        met: entropy of those that another twister was in the course of.
    """

    def __init__(self, twister: Any, sequence: Any, drawn: Iterable[int]) -> None:
        self.met: set[int] = set()
        self._twisters = {one: twister(sequence(one)) for one in drawn}
        self._states = {_words_of(made): one for one, made in self._twisters.items()}
        self._rounds = dict.fromkeys(self._twisters, 0)
        for made in self._twisters.values():
            _go_to(_ROUND, made)

    def has(self, twister: Any, seeded_with: int | None) -> bool:
        """Whether a twister is at one of them; it was seeded with that entropy, if it is known."""
        words = _words_of(twister)
        is_known = seeded_with in self._twisters
        courses = [seeded_with] if is_known and seeded_with is not None else [*self._twisters]
        for rounds in range(0, _ROUNDS // len(courses), _ROUNDS_AT_ONCE):
            if words in self._states:
                self.met.add(self._states[words])
                return True
            for one in courses:
                if self._rounds[one] <= rounds:
                    self._go_on(one)
        return False

    def _go_on(self, one: int) -> None:
        # A number is made of one word, so that four words are known by four numbers.
        numbers = self._twisters[one].random_raw(_ROUNDS_AT_ONCE * _ROUND).reshape(-1, _ROUND)
        self._states.update((row.tobytes(), one) for row in numbers[:, :_WORDS])
        self._rounds[one] += _ROUNDS_AT_ONCE


def _words_of(twister: Any) -> bytes:
    """The first numbers that were made of its words, or would be if none was drawn yet."""
    copy = type(twister)(0)
    copy.state = twister.state
    _go_to(0, copy)
    words: bytes = copy.random_raw(_WORDS).tobytes()
    return words


def _go_to(number: int, twister: Any) -> None:
    """Have a twister draw that number of those of its state next; the last leads to another."""
    state = twister.state
    twister.state = {**state, "state": {**state["state"], "pos": number}}


def _objects(
    kinds: tuple[type, ...], more: Iterable[Any]
) -> tuple[list[Any], list[Any], list[Any]]:
    """All objects of each kind in this process, and those among others that it does not list."""
    found: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    place_of: dict[int, list[Any] | None] = {}
    for one in gc.get_objects():
        kind = type(one)
        number = id(kind)  # a metaclass may have a hash of its own
        if number not in place_of:
            place_of[number] = _place(kind, kinds, found)
        place = place_of[number]
        if place is not None:
            place.append(one)
    listed = {id(one) for place in found for one in place}
    for one in more:
        place = _place(type(one), kinds, found)
        if place is not None and id(one) not in listed:
            place.append(one)
    return found


def _place(kind: type, kinds: tuple[type, ...], found: Iterable[list[Any]]) -> list[Any] | None:
    for base, place in zip(kinds, found, strict=True):
        if type.__subclasscheck__(base, kind):
            return place
    return None


def _bits_of(legacy: Any) -> Any:
    return legacy._bit_generator


def _sequence_of(one: Any) -> Any:
    """Its seed sequence; None once it was seeded by `numpy.random.seed`."""
    return getattr(one, "_seed_seq", None)


def _entropy_of(sequence: Any) -> Any:
    """An int that was drawn, or whatever the program has given."""
    entropy = getattr(sequence, "entropy", None)
    return entropy if type(entropy) is int else None


def _is_own(one: Any, drawn: set[int], course: _Course) -> bool:
    name, sequence = type(one).__name__, _sequence_of(one)
    if name == "MT19937":
        return course.has(one, _entropy_of(sequence))
    if _entropy_of(sequence) not in drawn:
        return False
    part = _FIXED.get(name)
    if part is None:
        return True
    fresh, now = type(one)(sequence).state["state"][part], one.state["state"][part]
    return bool((fresh == now) if isinstance(now, int) else (fresh == now).all())
