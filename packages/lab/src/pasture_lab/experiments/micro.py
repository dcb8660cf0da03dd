"""micro: what one full collection in a child does to the memory that it shares.

16,000 lists and 640,000 strings, a fork, a collection in the child. Setting, published figures
and rules are in `micro.toml`; the test itself is `programs/micro_heap.py`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pasture_lab.engine.description import read_experiment
from pasture_lab.engine.experiment import Bench, Options, Part
from pasture_lab.engine.figures import Figures, Measured
from pasture_lab.processes.program import run_program

_LISTS, _STRINGS_EACH = 16_000, 40
_VARIANTS = ("stock", "freeze", "out-of-line", "seal")
_MANY = 1_000_000  # tracked objects of one process in the published cost
_PROCESSES = 70
_HEAD_BYTES = 16


def _parts(options: Options) -> tuple[Part, ...]:
    """The parts, equal in both lengths: they take seconds."""
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


EXPERIMENT = read_experiment(Path(__file__).with_suffix(".toml"), parts=_parts, derive=_derive)
