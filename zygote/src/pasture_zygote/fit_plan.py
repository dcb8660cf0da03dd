"""The tree of images that serves the programs of a log best: measured, fitted, in names of modules.

`fit` knows bits; this module gives it what `fit_log` has read and `fit_costs` has measured, and
says for each image its base, what it preloads, and which programs start out of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pasture.errors import ZygoteFailed
from pasture_zygote.fit import Problem, atoms, fit
from pasture_zygote.fit_costs import Load, Loads
from pasture_zygote.fit_log import Kind

IMAGE_BYTES = 3_400_000
MODULE_SHARE = 1.3
REWRITTEN = 0.02
"""What an image takes: beside its modules, for each byte of them, and for each byte of the images
below it, where its process has written, too. As zygotes of the benchmark's packages have it."""
PREFIX = "fit-"


@dataclass(frozen=True, slots=True)
class Program:
    """A kind of programs, with all that importing its modules loads."""

    kind: Kind
    loads: tuple[Load, ...]

    @property
    def modules(self) -> frozenset[str]:
        """Names of all."""
        return frozenset(load.name for load in self.loads)


@dataclass(frozen=True, slots=True)
class Fitted:
    """An image of the tree.

    Attributes:
        base: name of the image below it; "" for none.
        preload: modules to import on top of the base, in this order.
        bytes: that it takes beside its base, as estimated.
        serves: kinds of programs that start out of it.
    """

    name: str
    base: str
    preload: tuple[str, ...]
    bytes: int
    serves: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted tree, bases before what stands on them.

    Attributes:
        programs: that count.
        seconds: that a program imports for, on average, without an image; and
        left_seconds: what is left of it out of these images.
        bytes: of all images.
        missing: modules that cannot be preloaded, and why.
    """

    images: tuple[Fitted, ...]
    programs: int
    seconds: float
    left_seconds: float
    bytes: int
    missing: Mapping[str, str]


def measured(
    kinds: Iterable[Kind], measure: Callable[[Sequence[str]], Loads]
) -> tuple[list[Program], dict[str, str]]:
    """The programs, and modules that cannot be imported. Kinds with the same modules take one
    measurement."""
    known: dict[tuple[str, ...], Loads] = {}
    programs: list[Program] = []
    missing: dict[str, str] = {}
    for kind in kinds:
        if kind.modules not in known:
            try:
                known[kind.modules] = measure(kind.modules)
            except ZygoteFailed as error:
                known[kind.modules] = Loads((), {kind.text or "a program": error.message})
        found = known[kind.modules]
        missing.update(found.missing)
        programs.append(Program(kind, found.loads))
    return programs, missing


def plan(
    programs: Sequence[Program],
    budget_bytes: int,
    *,
    has_supersets: bool = False,
    missing: Mapping[str, str],
    seed: str = "",
) -> Fit:
    """Fit images to programs.

    Args:
        seed: of the names of images: interpreter, options and variables.
    """
    sets = [program.modules for program in programs]
    atom_of = atoms(sets)
    problem = _problem(programs, sets, atom_of, budget_bytes, has_supersets)
    chosen = fit(problem)
    modules = {
        image: frozenset(n for n, a in atom_of.items() if image >> a & 1) for image in chosen
    }
    names, modules[0] = {0: ""}, frozenset()
    fitted = {}
    for image in sorted(chosen, key=lambda one: (one.bit_count(), one)):
        base = problem.base(image, chosen)
        preload = _preload(modules[image], modules[base], programs)
        names[image] = _name(seed, names[base], preload)
        size = problem.own_bytes(image, base)
        fitted[image] = Fitted(names[image], names[base], preload, size, ())
    for program, wanted in zip(programs, problem.wanted, strict=True):
        image = problem.best(wanted, chosen)
        if image:
            one = fitted[image]
            fitted[image] = replace(one, serves=(*one.serves, program.kind))
    count = sum(problem.counts)
    everything = sum(
        n * problem.time(wanted) for n, wanted in zip(problem.counts, problem.wanted, strict=True)
    )
    return Fit(
        tuple(fitted.values()),
        count,
        everything / count if count else 0.0,
        (everything - problem.total(chosen)) / count if count else 0.0,
        problem.bytes(chosen),
        missing,
    )


def _problem(
    programs: Sequence[Program],
    sets: Sequence[frozenset[str]],
    atom_of: Mapping[str, int],
    budget_bytes: int,
    has_supersets: bool,
) -> Problem:
    seconds: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for load in (load for program in programs for load in program.loads):
        seconds[load.name] = min(load.seconds, seconds.get(load.name, load.seconds))
        sizes[load.name] = min(load.bytes, sizes.get(load.name, load.bytes))
    count = max(atom_of.values(), default=-1) + 1
    atom_seconds, atom_sizes = [0.0] * count, [0] * count
    for name, atom in atom_of.items():
        atom_seconds[atom] += seconds[name]
        atom_sizes[atom] += int(MODULE_SHARE * sizes[name])
    wanted = tuple(sum(1 << atom for atom in {atom_of[name] for name in one}) for one in sets)
    counts = tuple(program.kind.count for program in programs)
    return Problem(
        wanted,
        counts,
        tuple(atom_seconds),
        tuple(atom_sizes),
        IMAGE_BYTES,
        REWRITTEN,
        budget_bytes,
        has_supersets,
    )


def _preload(
    modules: frozenset[str], base: frozenset[str], programs: Iterable[Program]
) -> tuple[str, ...]:
    """Modules whose import loads a set, in the order of a program that imports it."""
    left, found = set(modules - base), []
    for program in sorted(programs, key=lambda one: -len(one.modules & modules)):
        inside: list[bool] = []
        for load in program.loads:
            is_loaded = load.within >= 0 and inside[load.within]
            if load.name in left and not is_loaded:
                found.append(load.name)
            inside.append(is_loaded or load.name in left)
        left -= program.modules
    return tuple(found)


def _name(seed: str, base: str, preload: Sequence[str]) -> str:
    """The same for the same modules: an image that is there need not be made again."""
    return PREFIX + hashlib.sha256("\n".join((seed, base, *preload)).encode()).hexdigest()[:8]
