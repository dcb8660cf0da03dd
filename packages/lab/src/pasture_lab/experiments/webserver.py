"""webserver: the test application of the PyPy study behind nginx, memory and rates.

Setting, published figures and rules are in `webserver.toml`; the application and its load are
`large_objects`'. The study compared two builds of PyPy; here stand CPython as it is, CPython
with full collections out of line, which is the study's design on a stock interpreter, and sealed
CPython. `--python` adds other interpreters as they are: builds of PyPy, say, which is what the
study had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pasture_lab.engine.description import fill, read_experiment, read_rows
from pasture_lab.engine.experiment import Bench, Options, Part, Row
from pasture_lab.engine.figures import Figures, Measured
from pasture_lab.measurements.large_objects import BURSTS, Load, Sizes, bursts, limited, ours, rates

_TABLE = Path(__file__).with_suffix(".toml")
_COMPARED = read_rows(_TABLE, "compared")
"""Figures in which another interpreter is compared."""

_POLICIES = ("stock", "side-table", "seal")
_SIZES = (5_000, 10_000, 15_000, 20_000)
_BURST = 100
_QUICK_DIVISOR = 200
_QUICK_BURST = 8
_RATE_GUESS = 85.0  # requests a second, for the estimate of the time


def _parts(options: Options) -> tuple[Part, ...]:
    each = _QUICK_BURST if options.quick else _BURST
    sizes = {size: size // (_QUICK_DIVISOR if options.quick else 1) for size in _SIZES}
    loads: dict[str, Load] = {p: ours(None if p == "stock" else p) for p in _POLICIES}
    # The sealed server's rates stand for the out-of-line collector's in a full run.
    rated = dict(loads) if options.quick else {p: loads[p] for p in ("stock", "seal")}
    limits = {p: loads[p] for p in ("stock", "seal")}
    remembered: dict[str, Load] = loads | {"stock-today": replace(ours(None), first="")}
    given = {_given(name): path for name, path in options.pythons.items()}
    fewest = {_SIZES[0]: sizes[_SIZES[0]]}
    return (
        *(_memory(name, what, each) for name, what in (remembered | given).items()),
        *(_rate(f"rate-{name}", rates, what, sizes) for name, what in rated.items()),
        *(_rate(f"rate-{name}", rates, what, fewest) for name, what in given.items()),
        *(_rate(f"limit-{name}", limited, what, sizes) for name, what in limits.items()),
    )


def _memory(name: str, what: Load, each: int) -> Part:
    key = {"bursts": BURSTS, "burst": each, **_path(what)}
    return Part(name, 6 + BURSTS * each / _RATE_GUESS, partial(bursts, what, each), key)


def _rate(
    name: str, measure: Callable[[Load, Sizes, Bench], Measured], what: Load, sizes: Sizes
) -> Part:
    key = {"sizes": list(sizes.values()), **_path(what)}
    seconds = 6 + sum(sizes.values()) / _RATE_GUESS
    return Part(name, seconds, partial(measure, what, sizes), key)


def _given(name: str) -> str:
    """The part of an interpreter that was given."""
    return f"python-{name}"


def _path(what: Load) -> dict[str, str | float]:
    """The identity of an other interpreter: a build may take another's place."""
    return {"python": what, "built": Path(what).stat().st_mtime} if isinstance(what, str) else {}


def _derive(figures: Figures) -> Figures:
    """The study's patched PyPy is compared with what was run for it here; rates under a limit
    are rates of paging only where there is swap to page to.
    """
    found: dict[str, float] = {}
    if figures.get("limit-stock.swap_bytes"):
        found |= {
            f"paging-{name}": value
            for name, value in ((n.removeprefix("limit-"), v) for n, v in figures.items())
            if name.endswith("_a_second") and f"limit-{name}" in figures
        }
    for size in _SIZES:
        for name in ("side-table", "seal"):
            value = figures.get(f"rate-{name}.r{size}_a_second")
            if value is not None:
                found[f"patched.r{size}_a_second"] = value
                break
    return found


def _given_rows(options: Options) -> tuple[Row, ...]:
    """Two rows for each given interpreter; the first is what the others are compared with."""
    rows: list[Row] = []
    for name in options.pythons:
        standard = next(iter(options.pythons))
        words = {"name": name, "part": _given(name)}
        words |= {"standard": standard, "standard_part": _given(standard)}
        compared = [fill(row, words) for row in _COMPARED]
        rows += compared if rows else [replace(row, published="", rule=None) for row in compared]
    return tuple(rows)


EXPERIMENT = read_experiment(
    _TABLE,
    parts=_parts,
    derive=_derive,
    more_rows=_given_rows,
    words={"quick_burst": _QUICK_BURST, "quick_divisor": _QUICK_DIVISOR},
)
