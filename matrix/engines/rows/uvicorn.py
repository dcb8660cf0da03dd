"""uvicorn's workers: spawned, and forked from a sealed parent, as `benchmarks.uvicorn_workers`."""

from __future__ import annotations

from benchmarks import uvicorn_workers
from matrix.engines.engine import Engine, Figures, Place, Variant

WORKERS = 8


def measure(variant: Variant, place: Place) -> Figures:
    name = "spawned" if variant == "theirs" else "sealed"
    found = uvicorn_workers.measure(name, WORKERS, place.folder)
    return Figures(found.private_bytes, found.pss_bytes, found.start_s)


ENGINE = Engine(
    name="uvicorn",
    title="uvicorn --workers",
    rank=10,
    theirs="`uvicorn app:app --workers 8` (spawned)",
    way_in="`pasture run uvicorn app:app --workers 8`",
    workers=WORKERS,
    measure=measure,
    private_goal=uvicorn_workers.PRIVATE_GOAL,
    start_goal=uvicorn_workers.START_GOAL,
    guide="uvicorn.md",
    note="A FastAPI application with 16 SQLAlchemy tables and 32 pydantic models; all workers have "
    "served at least 20 requests. The sealed parent warms up with five, within the lifespan "
    "(`--lifespan warm-up`).",
)
