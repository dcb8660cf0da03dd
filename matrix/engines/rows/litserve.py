"""LitServe's inference workers: spawned, and forked from one sealed process."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from matrix.engines.engine import Engine, Figures, Place, Variant, memory_of
from pasture.launch.ports import LOOPBACK, free_port
from pasture.launch.session import Group, environment

WORKERS = 4
PROGRAM = Path(__file__).parents[1] / "programs" / "litserve_model.py"
INPUT = {"input": list(range(64))}
TIMEOUT_S = 600.0
EACH_S = 30.0


def measure(variant: Variant, place: Place) -> Figures:
    port = free_port()
    sealed = [place.script("pasture"), "run", "--fork-spawned", "--"]
    begin = sealed if variant == "sealed" else []
    command = [*begin, str(place.python), str(PROGRAM), str(port), str(WORKERS)]
    began = time.monotonic()
    workers: set[int] = set()
    with Group(command, log=place.folder / "server.log", env=environment({})) as group:

        def all_have_answered() -> bool:
            with suppress(OSError):
                workers.add(ask(port)["pid"])
            return len(workers) == WORKERS

        group.wait_for(all_have_answered, "the workers did not answer", timeout_s=TIMEOUT_S)
        start_s = time.monotonic() - began
        for _ in range(20 * WORKERS):
            ask(port)
        private, pss = memory_of(workers, others=set(group.members()) - workers)
        group.terminate()
        group.wait(TIMEOUT_S)
    return Figures(private, pss, start_s)


def ask(port: int) -> Any:
    """The answer to one request. Raises an OSError while nothing listens."""
    request = urllib.request.Request(
        f"http://{LOOPBACK}:{port}/predict",
        data=json.dumps(INPUT).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=EACH_S) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise click.ClickException(f"the server answers {error}") from None


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
    "process and, sealed, the one that the workers are forked from. The start lasts until all "
    "workers have answered.",
)
