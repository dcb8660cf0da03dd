"""Which images serve programs best within a budget of memory: a tree of sets of modules.

Pure computation. A module is loaded with what it imports, so the modules of a program are closed
under import, and what two programs share is, too. Such sets are the candidates. An image holds
what its base has not, and its base is the largest image inside it. A program starts out of the
image that saves it most time and holds no module that the program does not import itself.

The search takes the image with the most time saved per byte while the budget lasts, and then
exchanges images as long as that saves time. The first half is that of OpenLambda's Forklift:
"Forklift: Fitting Zygote Trees for Faster Package Initialization" (2024).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

Images = frozenset[int]
"""Sets of atoms, each as the bits of a number."""

_TINY = 1e-9
_MAX_EXCHANGES = 50
_EXCHANGED = 30
"""Candidates that are tried in the place of chosen ones, the best by themselves first."""


@dataclass(frozen=True)
class Problem:
    """What is to be served. An atom is some modules that the same programs import.

    Attributes:
        wanted: the atoms that programs of a kind import, as bits.
        counts: how many programs of each kind there are.
        seconds: that loading each atom takes.
        sizes: bytes of each atom.
        image_bytes: that each image takes beside its atoms.
        rewritten: share of the images below it that each image holds again: its process has written
            there.
        budget_bytes: for all images.
        has_supersets: whether an image may hold modules that a program does not import.
    """

    wanted: tuple[int, ...]
    counts: tuple[int, ...]
    seconds: tuple[float, ...]
    sizes: tuple[int, ...]
    image_bytes: int
    rewritten: float
    budget_bytes: int
    has_supersets: bool = False

    def time(self, atoms: int) -> float:
        """Seconds to load a set."""
        return sum(self.seconds[bit] for bit in bits(atoms))

    def size(self, atoms: int) -> int:
        """Bytes of a set."""
        return sum(self.sizes[bit] for bit in bits(atoms))

    @cached_property
    def candidates(self) -> tuple[int, ...]:
        """Sets that an image may hold."""
        wanted = set(self.wanted)
        found = wanted | {a & b for a, b in combinations(wanted, 2)}
        if self.has_supersets:
            found |= {a | b for a, b in combinations(wanted, 2)}
            everything = 0
            for one in sorted(wanted, key=lambda atoms: -self.weight(atoms)):
                everything |= one
                found.add(everything)
        return tuple(sorted(found - {0}))

    def weight(self, atoms: int) -> float:
        """Seconds that an image of a set saves by itself, over all programs."""
        return sum(saved for _, saved in self.savings(atoms))

    def saved(self, wanted: int, image: int) -> float:
        """Seconds that a program saves that starts out of an image; 0 if it must not."""
        if image & ~wanted and not self.has_supersets:
            return 0.0
        return self._times(image & wanted)

    @cached_property
    def _times(self) -> _Cached:
        return _Cached(self.time)

    @cached_property
    def sizes_of(self) -> _Cached:
        """Bytes of a set."""
        return _Cached(self.size)

    def base(self, image: int, images: Iterable[int]) -> int:
        """The largest of some images that lies inside another one; 0 for none."""
        inside = (one for one in images if one != image and not one & ~image)
        return max(inside, key=self.sizes_of, default=0)

    def best(self, wanted: int, images: Iterable[int]) -> int:
        """The image that a program starts out of, of two equally good ones the smaller; 0: none."""
        best = max(
            images,
            key=lambda image: (self.saved(wanted, image), -self.sizes_of(image)),
            default=0,
        )
        return best if self.saved(wanted, best) else 0

    def bytes(self, images: Images) -> int:
        """Of all images."""
        return sum(self.own_bytes(one, self.base(one, images)) for one in images)

    def own_bytes(self, image: int, base: int) -> int:
        """Of an image on top of another one."""
        again = self.rewritten * self.sizes_of(base)
        return int(self.sizes_of(image & ~base) + again) + self.image_bytes

    def total(self, images: Iterable[int]) -> float:
        """Seconds that all programs together save."""
        return sum(self.of_kinds(images))

    def of_kinds(self, images: Iterable[int]) -> list[float]:
        """Seconds that all programs of each kind save."""
        found = [0.0] * len(self.wanted)
        for image in images:
            for kind, saved in self.savings(image):
                found[kind] = max(found[kind], saved)
        return found

    def savings(self, image: int) -> Sequence[tuple[int, float]]:
        """The kinds that an image serves, with the seconds that all their programs save."""
        known = self._savings.get(image)
        if known is None:
            each = enumerate(zip(self.wanted, self.counts, strict=True))
            found = ((kind, count * self.saved(wanted, image)) for kind, (wanted, count) in each)
            known = self._savings[image] = [(kind, saved) for kind, saved in found if saved]
        return known

    @cached_property
    def _savings(self) -> dict[int, list[tuple[int, float]]]:
        return {}


class _Cached:
    def __init__(self, function: Callable[[int], float]) -> None:
        self._function = function
        self._known: dict[int, float] = {}

    def __call__(self, atoms: int) -> float:
        if atoms not in self._known:
            self._known[atoms] = self._function(atoms)
        return self._known[atoms]


def bits(atoms: int) -> Iterator[int]:
    """Positions of the bits of a number."""
    while atoms:
        lowest = atoms & -atoms
        yield lowest.bit_length() - 1
        atoms ^= lowest


def fit(problem: Problem) -> Images:
    """The images to make."""
    chosen = _filled(problem, frozenset())
    all_saved = sum(
        count * problem.time(wanted)
        for wanted, count in zip(problem.wanted, problem.counts, strict=True)
    )
    for _ in range(_MAX_EXCHANGES):
        if problem.total(chosen) >= all_saved * (1 - _TINY):
            break
        others = _exchanged(problem, chosen)
        better = next((other for other in others if _is_better(problem, other, chosen)), None)
        if better is None:
            break
        chosen = better
    return _pruned(problem, chosen)


def _is_better(problem: Problem, images: Images, than: Images) -> bool:
    """Less time, or the same in less memory."""
    gain = problem.total(images) - problem.total(than)
    tiny = _TINY * (1.0 + problem.total(than))
    return gain > tiny or (gain > -tiny and problem.bytes(images) < problem.bytes(than))


def _filled(problem: Problem, images: Images, without: int = 0) -> Images:
    """With more images, as many as the budget has headroom for."""
    left = [one for one in problem.candidates if one not in images and one != without]
    while True:
        now, size = problem.of_kinds(images), problem.bytes(images)
        bases = {one: problem.base(one, images) for one in images}
        best, best_rate = 0, 0.0
        for one in left:
            gain = sum(max(0.0, saved - now[kind]) for kind, saved in problem.savings(one))
            extra = _extra(problem, one, bases)
            if size + extra > problem.budget_bytes or (gain <= 0 and extra >= 0):
                continue
            rate = gain / extra if extra > 0 else float("inf")
            if rate > best_rate:
                best, best_rate = one, rate
        if not best:
            return images
        images |= {best}
        left.remove(best)


def _extra(problem: Problem, image: int, bases: Mapping[int, int]) -> int:
    """Bytes that one more image takes: those above it that get it for their base lose some."""
    size = problem.sizes_of
    found = problem.own_bytes(image, problem.base(image, bases))
    for above, base in bases.items():
        if not image & ~above and size(image) > size(base):
            found += problem.own_bytes(above, image) - problem.own_bytes(above, base)
    return found


def _pruned(problem: Problem, images: Images) -> Images:
    """Without those that have become useless since."""
    for one in sorted(images, key=problem.size):
        fewer = images - {one}
        if not _is_better(problem, images, fewer) and problem.bytes(fewer) <= problem.budget_bytes:
            images = fewer
    return images


def _exchanged(problem: Problem, images: Images) -> Iterator[Images]:
    """Neighbours: one image less, or another one more, and the best that can be made of it."""
    for one in images:
        yield _filled(problem, images - {one}, without=one)
    outside = [one for one in problem.candidates if one not in images]
    outside.sort(
        key=lambda one: -problem.weight(one) / (problem.size(one) + problem.image_bytes + 1)
    )
    for one in outside[:_EXCHANGED]:
        more = _reduced(problem, images | {one}, one)
        if more is not None:
            yield _filled(problem, more)


def _reduced(problem: Problem, images: Images, kept: int) -> Images | None:
    """Within the budget again: without those that save least per byte."""
    while problem.bytes(images) > problem.budget_bytes:
        others = images - {kept}
        if not others:
            return None
        total, size = problem.total(images), problem.bytes(images)

        def rate(
            one: int, images: Images = images, total: float = total, size: int = size
        ) -> float:
            fewer = images - {one}
            return (total - problem.total(fewer)) / max(1, size - problem.bytes(fewer))

        images -= {min(others, key=rate)}
    return images


def atoms(sets: Sequence[frozenset[str]]) -> dict[str, int]:
    """For each module the index of its atom: modules that lie in the same sets are one atom."""
    found: dict[tuple[int, ...], int] = {}
    places: dict[str, list[int]] = {}
    for number, names in enumerate(sets):
        for name in names:
            places.setdefault(name, []).append(number)
    return {name: found.setdefault(tuple(where), len(found)) for name, where in places.items()}
