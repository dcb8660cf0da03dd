"""A row of a server of ASGI applications: `benchmarks.uvicorn_workers` with another command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.uvicorn_workers import WARM, Served, measured
from matrix.engines.engine import Figures, Place, Variant

WORKERS = 4
NOTE = "Application, requests and warm-up of uvicorn's row."


@dataclass(frozen=True, slots=True)
class AsgiServer:
    """How one server is started.

    Attributes:
        name: of its command and of the module of pasture.servers.
        arguments: of its command line, for a port.
        started: what each worker writes to the log when it has started.
    """

    name: str
    arguments: Callable[[int], Sequence[str]]
    started: str

    def measure(self, variant: Variant, place: Place) -> Figures:
        """One start, with the workers at work."""
        theirs = [place.script(self.name)]
        sealed = [str(place.python), "-m", "pasture", "run", *WARM, self.name]
        begin = theirs if variant == "theirs" else sealed
        with Served(begin, WORKERS, place.folder, self.arguments, self.started) as server:
            found = measured(server, WORKERS)
        return Figures(found.private_bytes, found.pss_bytes, found.start_s)
