"""hypercorn's workers: spawned, and forked from a sealed parent."""

from __future__ import annotations

from benchmarks.uvicorn_workers import APP
from matrix.engines.asgi_row import NOTE, WORKERS, AsgiServer
from matrix.engines.engine import Engine, Figures, Place, Variant

SERVER = AsgiServer(
    "hypercorn",
    lambda port: [APP, "--bind", f"127.0.0.1:{port}"],
    started="Running on http",
)


def measure(variant: Variant, place: Place) -> Figures:
    return SERVER.measure(variant, place)


ENGINE = Engine(
    name="hypercorn",
    title="hypercorn --workers",
    rank=11,
    theirs="`hypercorn app:app --workers 4` (spawned)",
    way_in="`pasture run hypercorn app:app --workers 4`",
    workers=WORKERS,
    measure=measure,
    packages="asgi",
    guide="uvicorn.md#hypercorn-granian",
    note=NOTE,
)
