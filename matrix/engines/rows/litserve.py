"""LitServe's inference workers: spawned, and forked from one sealed process."""

from __future__ import annotations

from pathlib import Path

from matrix.engines.answering import measured
from matrix.engines.engine import Engine, Figures, Place, Variant
from pasture_tools.launch.ports import free_port

WORKERS = 4
PROGRAM = Path(__file__).parents[1] / "programs" / "litserve_model.py"
INPUT = {"input": list(range(64))}


def measure(variant: Variant, place: Place) -> Figures:
    port = free_port()
    sealed = [place.script("pasture"), "run", "--fork-spawned", "--"]
    begin = sealed if variant == "sealed" else []
    command = [*begin, str(place.python), str(PROGRAM), str(port), str(WORKERS)]
    return measured(command, port, WORKERS, INPUT, place)


ENGINE = Engine(
    name="litserve",
    title="LitServe, torch",
    rank=13,
    theirs="`python server.py`, `LitServer(..., workers_per_device=4)` (spawned)",
    way_in="`pasture run --fork-spawned -- python server.py`",
    workers=WORKERS,
    measure=measure,
    packages="litserve",
    pss_goal=0.5,
    guide="libraries.md#servers-and-tools",
    note="A model of two layers. PSS is of the program, its four API servers, the manager's "
    "process and, sealed, the one that the workers are forked from.",
)
