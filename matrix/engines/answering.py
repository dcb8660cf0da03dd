"""A start of a server that is measured when each of its workers has answered.

A request is a JSON document that is posted to /predict; the answer names its worker as `pid`.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from matrix.engines.engine import Figures, Place, memory_of
from pasture_tools.launch.ports import LOOPBACK
from pasture_tools.launch.session import Group, environment

TIMEOUT_S = 600.0
EACH_S = 30.0


def measured(
    command: Sequence[str], port: int, workers: int, document: Mapping[str, Any], place: Place
) -> Figures:
    """The figures when all workers have answered, and 20 requests a worker have been sent."""
    began = time.monotonic()
    seen: set[int] = set()
    with Group(command, log=place.folder / "server.log", env=environment({})) as group:

        def all_have_answered() -> bool:
            with suppress(OSError):
                seen.add(ask(port, document)["pid"])
            return len(seen) == workers

        group.wait_for(all_have_answered, "the workers did not answer", timeout_s=TIMEOUT_S)
        start_s = time.monotonic() - began
        for _ in range(20 * workers):
            ask(port, document)
        private, pss = memory_of(seen, others=set(group.members()) - seen)
        group.terminate()
        group.wait(TIMEOUT_S)
    return Figures(private, pss, start_s)


def ask(port: int, document: Mapping[str, Any]) -> Any:
    """The answer to one request. Raises an OSError while nothing listens."""
    request = urllib.request.Request(
        f"http://{LOOPBACK}:{port}/predict",
        data=json.dumps(document).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=EACH_S) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise click.ClickException(f"the server answers {error}") from None
