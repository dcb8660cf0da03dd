"""granian's workers: spawned, and forked from a sealed parent."""

from __future__ import annotations

from benchmarks.uvicorn_workers import APP
from matrix.engines.asgi_row import NOTE, WORKERS, AsgiServer
from matrix.engines.engine import Engine, Figures, Place, Variant

SERVER = AsgiServer(
    "granian",
    lambda port: ["--interface", "asgi", APP, "--port", str(port)],
    started="Started worker-",
)


def measure(variant: Variant, place: Place) -> Figures:
    return SERVER.measure(variant, place)


ENGINE = Engine(
    name="granian",
    title="granian --workers",
    rank=12,
    theirs="`granian --interface asgi app:app --workers 4` (spawned on CPython 3.14)",
    way_in="`pasture run granian --interface asgi app:app --workers 4`",
    workers=WORKERS,
    measure=measure,
    packages="asgi",
    guide="uvicorn.md#hypercorn-granian",
    note=NOTE,
)
