"""sentence-transformers behind uvicorn: workers spawned, and forked from a sealed parent."""

from __future__ import annotations

from pathlib import Path

from matrix.engines.answering import measured
from matrix.engines.engine import Engine, Figures, Place, Variant
from pasture_tools.launch.ports import LOOPBACK, free_port

WORKERS = 4
PROGRAMS = Path(__file__).parents[1] / "programs"
PATIENT = ("--timeout-worker-healthcheck", "600")
"""A worker that loads does not answer."""

INPUT = {"texts": ["a b c", "the sheep", "a gate in the field"]}


def measure(variant: Variant, place: Place) -> Figures:
    port = free_port()
    begin = [place.script("pasture"), "run", "uvicorn"]
    words = ["sentences_app:app", "--app-dir", str(PROGRAMS), "--workers", str(WORKERS), *PATIENT]
    at = ["--host", LOOPBACK, "--port", str(port)]
    command = [*(begin if variant == "sealed" else [place.script("uvicorn")]), *words, *at]
    return measured(command, port, WORKERS, INPUT, place)


ENGINE = Engine(
    name="sentences",
    title="uvicorn, sentence-transformers",
    rank=12,
    theirs="`uvicorn app:app --workers 4` (spawned)",
    way_in="`pasture run uvicorn app:app --workers 4`",
    workers=WORKERS,
    measure=measure,
    packages="sentences",
    pss_goal=0.4,
    guide="libraries.md",
    note="The application makes a BERT of six layers and random weights, 91 MB, at its import. No "
    "request is served before the fork: OpenMP's threads would be lost there. Both variants have "
    "`--timeout-worker-healthcheck 600`: uvicorn ends a worker that does not answer for 5 s.",
)
