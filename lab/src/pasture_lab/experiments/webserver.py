"""webserver: the test application of the PyPy study behind nginx, memory and rates.

Owns setting, published figures and rules; the application and its load are `large_objects`'.
The study compared two builds of PyPy; here stand CPython as it is, CPython with full
collections out of line, which is the study's design on a stock interpreter, and sealed CPython.
`--python` adds other interpreters as they are: builds of PyPy, say, which is what the study had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pasture_lab.engine.experiment import Bench, Experiment, Options, Part, Plot, Row
from pasture_lab.engine.figures import Figures, Measured
from pasture_lab.engine.rule import Rule
from pasture_lab.measurements.large_objects import BURSTS, Load, Sizes, bursts, limited, ours, rates

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
    """What tells one other interpreter from another: a build may take another's place."""
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


def _rate_row(size: int, standard: float, patched: float) -> Row:
    """One of the rows about time without a shortage of memory."""
    return Row(
        what=f"{size:,} requests",
        published=f"{standard} conn/s standard, {patched} patched",
        shows=f"{{rate-stock.r{size}_a_second}} conn/s stock, {{patched.r{size}_a_second}} with "
        f"the collector out of line, {{rate-seal.r{size}_a_second}} sealed",
        rule=Rule(
            says="conn/s, collector out of line / stock",
            of=f"patched.r{size}_a_second",
            to=f"rate-stock.r{size}_a_second",
            most=0.8,
            published=patched / standard,
        ),
        decides=False,
    )


def _paging_row(size: int, standard: float, patched: float) -> Row:
    """One of the rows about time where the standard server has to page."""
    return Row(
        what=f"{size:,} requests, memory short",
        published=f"{standard} conn/s standard (paging), {patched} patched",
        shows=f"{{limit-stock.r{size}_a_second}} conn/s stock, "
        f"{{limit-seal.r{size}_a_second}} sealed, in {{limit-seal.limit_bytes}}; without the "
        f"limit {{rate-stock.r{size}_a_second}} and {{rate-seal.r{size}_a_second}}",
        rule=Rule(
            says="conn/s under the limit, sealed / stock",
            of=f"paging-seal.r{size}_a_second",
            to=f"paging-stock.r{size}_a_second",
            least=1.2,
            published=patched / standard,
        ),
        without="without swap the kernel kills instead of paging: see the row about that",
    )


def _given_rows(options: Options) -> tuple[Row, ...]:
    """Two for each interpreter that was given; the first is what the others are compared with."""
    rows: list[Row] = []
    for name in options.pythons:
        compared = _compared(name, next(iter(options.pythons)))
        rows += compared if rows else [replace(row, published="", rule=None) for row in compared]
    return tuple(rows)


def _compared(name: str, standard: str) -> tuple[Row, Row]:
    """Memory and rate of an interpreter, against those of another."""
    part = _given(name)
    return (
        Row(
            what=f"{name}, as it is: memory",
            published="private memory 20% less, shared memory flat",
            shows=f"{{{part}.private_end_bytes}} private, shared {{{part}.shared_start_bytes}}, "
            f"{{{part}.shared_first_bytes}} after the first requests, {{{part}.shared_end_bytes}} "
            f"at the end; total PSS {{{part}.total_pss_bytes}}",
            rule=Rule(
                says=f"private / that of {standard}",
                of=f"{part}.private_end_bytes",
                to=f"{_given(standard)}.private_end_bytes",
                most=0.9,
                published=0.8,
            ),
            decides=False,
        ),
        Row(
            what=f"{name}, as it is: {_SIZES[0]:,} requests",
            published="190.8 conn/s standard, 67.9 patched",
            shows=f"{{rate-{part}.r{_SIZES[0]}_a_second}} conn/s",
            rule=Rule(
                says=f"conn/s / that of {standard}",
                of=f"rate-{part}.r{_SIZES[0]}_a_second",
                to=f"rate-{_given(standard)}.r{_SIZES[0]}_a_second",
                most=0.8,
                published=67.9 / 190.8,
            ),
            decides=False,
        ),
    )


EXPERIMENT = Experiment(
    name="webserver",
    title="A forking web server with large objects",
    source="PyPy for forking web servers, 2018",
    setting=(
        "PyPy with the visited flag of its collector moved from the object's header into a hash "
        "table. nginx, uWSGI in pre-fork mode with 4 workers, Django; 8 GB and 3 cores. At "
        "start-up 5 large objects are allocated; each request allocates one more and drops the "
        "third-last. Memory after each of 50 bursts of 100 requests; httperf for 5,000 to 20,000."
    ),
    differences=(
        "CPython, with the collector's thresholds of 2018 (700 instead of 2,000): a request "
        "frees as many objects as it allocates, so that today's threshold is never reached and "
        "nothing is ever collected. The run stock-today shows that.",
        "The study's patched collector is pasture's out-of-line collector on a stock "
        "interpreter (policy side-table): marks are kept in a side table, here a bitmap.",
        f"Quick runs send bursts of {_QUICK_BURST} requests and a {_QUICK_DIVISOR}th of the "
        "requests of each rate; full runs take the rate of the sealed server for that of the "
        "out-of-line collector, which is a part of it.",
        "Twice as many httperf at once as there are cores, one connection each at a time, at the "
        "lowest priority, since httperf polls while it waits.",
        "A worker's first two requests drop two of the five objects that were there at the fork, "
        "28 MB, which leave the shared memory whatever the collector does.",
        "Short of memory is a cgroup with a limit half way between the peaks of the stock and the "
        "sealed server. Without swap the kernel kills instead of paging; uWSGI then forks a "
        "new worker, fresh and small, so that it goes on nearly as fast.",
        "Other interpreters (--python) run without pasture, under a pre-fork server in plain "
        "Python, with Django if it has it.",
    ),
    needs=("django", "pyuwsgi"),
    parts=_parts,
    derive=_derive,
    more_rows=_given_rows,
    rows=(
        Row(
            what="private memory a worker after 5,000 requests",
            published="1,000-1,200 MB standard, about 800 MB patched (20% less)",
            shows="{stock.private_end_bytes} stock, {side-table.private_end_bytes} with the "
            "collector out of line, {seal.private_end_bytes} sealed, after {stock.requests}",
            rule=Rule(
                says="private, collector out of line / stock",
                of="side-table.private_end_bytes",
                to="stock.private_end_bytes",
                most=0.9,
                published=0.8,
            ),
        ),
        Row(
            what="shared memory with requests, standard",
            published="falls away",
            shows="{stock.shared_start_bytes} to {stock.shared_end_bytes}",
            rule=Rule(
                says="shared after / before, stock",
                of="stock.shared_end_bytes",
                to="stock.shared_start_bytes",
                most=0.8,
            ),
        ),
        Row(
            what="shared memory with requests, patched",
            published="flat",
            shows="{side-table.shared_start_bytes}, {side-table.shared_first_bytes} after the "
            "first requests, {side-table.shared_end_bytes} at the end; sealed "
            "{seal.shared_start_bytes}, {seal.shared_first_bytes} and {seal.shared_end_bytes}",
            # From the first requests on: whatever the collector does, each worker's first two
            # requests drop two of the objects that it shared, 28 MB.
            rule=Rule(
                says="shared at the end / after the first requests, collector out of line",
                of="side-table.shared_end_bytes",
                to="side-table.shared_first_bytes",
                least=0.9,
                published=1.0,
            ),
        ),
        Row(
            what="private and shared memory a worker with CPython's thresholds of today",
            shows="{stock-today.private_end_bytes} private, shared "
            "{stock-today.shared_start_bytes} to {stock-today.shared_end_bytes}",
        ),
        _rate_row(5_000, 190.8, 67.9),
        _rate_row(10_000, 269.2, 148.7),
        _paging_row(15_000, 97.7, 188.8),
        _paging_row(20_000, 103.2, 190.9),
        Row(
            what="short of memory: paging, or killed",
            published="standard pages from 15,000 requests on, patched does not",
            shows="{limit-stock.kills} processes of the stock server, {limit-seal.kills} of the "
            "sealed one, in {limit-stock.limit_bytes}; unanswered {limit-stock.unanswered} and "
            "{limit-seal.unanswered}",
            rule=Rule(
                says="processes killed for want of memory, sealed / stock",
                of="limit-seal.kills",
                to="limit-stock.kills",
                most=0.1,
                published=0.0,
            ),
            without="the stock server was not killed either",
        ),
    ),
    plots=(
        Plot(
            key="private_bytes",
            title="Private memory of a worker",
            caption="After each of 50 bursts; median worker.",
            x_title="requests served by all workers",
            y_title="MB a worker",
        ),
        Plot(
            key="shared_bytes",
            title="Shared memory of a worker",
            caption="A fall is a page that was written.",
            x_title="requests served by all workers",
            y_title="MB a worker",
        ),
        Plot(
            key="a_second",
            title="Connections a second",
            caption="By httperf; the runs named limit are short of memory.",
            x_title="requests",
            y_title="conn/s",
        ),
    ),
)
