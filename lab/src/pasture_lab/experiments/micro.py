"""micro: what one full collection in a child does to the memory that it shares.

16,000 lists and 640,000 strings, a fork, a collection in the child. Owns setting, published
figures and rules; the test itself is `programs/micro_heap.py`.
"""

from __future__ import annotations

from functools import partial

from pasture_lab.engine.experiment import Bench, Experiment, Options, Part, Plot, Row
from pasture_lab.engine.figures import Figures, Measured
from pasture_lab.engine.rule import Rule
from pasture_lab.processes.program import run_program

_LISTS, _STRINGS_EACH = 16_000, 40
_VARIANTS = ("stock", "freeze", "out-of-line", "seal")
_MANY = 1_000_000  # tracked objects of one process in the published cost
_PROCESSES = 70
_HEAD_BYTES = 16


def _parts(options: Options) -> tuple[Part, ...]:
    """The same in both lengths: it takes seconds."""
    micro = [
        Part(
            variant,
            1.5,
            partial(_measure, variant, _LISTS, _STRINGS_EACH),
            {"lists": _LISTS, "strings": _STRINGS_EACH},
        )
        for variant in _VARIANTS
    ]
    many = Part("million", 2.5, partial(_measure, "out-of-line", _MANY, 0), {"lists": _MANY})
    return (*micro, many)


def _measure(variant: str, lists: int, strings_each: int, bench: Bench) -> Measured:
    found = run_program(bench, "micro_heap", variant, str(lists), str(strings_each))
    return Measured({name: float(value) for name, value in found.items()})


def _derive(figures: Figures) -> Figures:
    if "million.scratch_bytes" not in figures:
        return {}
    each = figures["million.scratch_bytes"] / figures["million.objects"]
    return {
        "transient_bytes_an_object": each,
        "host_bytes": each * _MANY * _PROCESSES,
        "cost_ratio": each / _HEAD_BYTES,
    }


EXPERIMENT = Experiment(
    name="micro",
    title="One collection in a child",
    source="Instagram, Copy-on-write friendly Python garbage collection, December 2017",
    setting=(
        "16,000 times, append an empty list to one list and 40 strings of eight characters to "
        "another; fork; collect in the child; compare its memory before and after. The "
        "collector's heads, two words before each list, were moved out of the objects."
    ),
    differences=(
        "A child's memory is its private memory: RSS counts shared pages too.",
        "The redesigned head needs another interpreter; in its place stands pasture's "
        "out-of-line collector, which keeps its marks apart from the objects for as long as a "
        "collection takes, on a stock one.",
    ),
    parts=_parts,
    derive=_derive,
    rows=(
        Row(
            what="growth of the child, collector's heads kept apart",
            published="60 MB with heads in the objects, 0.9 MB without",
            shows="{stock.private_growth_bytes} built in, "
            "{out-of-line.private_growth_bytes} out of line",
            rule=Rule(
                says="growth built in / out of line",
                of="stock.private_growth_bytes",
                to="out-of-line.private_growth_bytes",
                least=10,
                published=60 / 0.9,
            ),
        ),
        Row(
            what="growth of the child, gc.freeze() before the fork",
            published="shared memory stays",
            shows="{stock.private_growth_bytes} built in, {freeze.private_growth_bytes} frozen",
            rule=Rule(
                says="growth built in / frozen",
                of="stock.private_growth_bytes",
                to="freeze.private_growth_bytes",
                least=10,
            ),
        ),
        Row(
            what="growth of the child, sealed",
            shows="{seal.private_growth_bytes}, RSS {seal.rss_growth_bytes}",
        ),
        Row(
            what="memory for heads kept apart",
            published="16 bytes an object, for ever",
            shows="{transient_bytes_an_object} bytes an object, during a collection",
            rule=Rule(
                says="bytes an object, transient here / 16 for ever",
                of="cost_ratio",
                least=0.5,
                most=2,
                published=1.0,
            ),
            decides=False,
        ),
        Row(
            what="the same for a host of 70 processes with a million objects each",
            published="about 1 GB",
            shows="{host_bytes} if all collect at once, else 0",
            rule=Rule(
                says="host's memory, if all collect at once / 70 x 16 MB",
                of="cost_ratio",
                least=0.5,
                most=2,
                published=1.0,
            ),
            decides=False,
        ),
    ),
    plots=(
        Plot(
            key="private_growth_bytes",
            title="Growth of the child's private memory by one collection",
            caption="Each list's head lies among forty strings: writing to it takes their page.",
            kind="bars",
            parts=_VARIANTS,
            y_title="MB",
        ),
    ),
)
