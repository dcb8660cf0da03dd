"""Images that a folder keeps for `PASTURE_IMAGE=FOLDER/`: one for each machine and environment.

Owns their names, and whether one fits here. A name begins with what was ordered, and goes on with
the machine and the variables: an image that has become old is replaced, and the others stay.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pasture.errors import ImageFailed
from pasture.trust import locks
from pasture_image.build import host
from pasture_image.build.making import why_not
from pasture_image.inside import environment
from pasture_image.inside.order import Order
from pasture_image.inside.start_variables import is_uncounted

MAX_IMAGES = 32
"""Of a folder: environments that differ at each start (an id of a job) would fill it."""

_SAME = 1
"""The rule of a fact that must be equal, as in src/stub/host.h."""


class Found(NamedTuple):
    """An image that fits, or why there is none."""

    path: Path | None
    why: str = ""


def find(stub: Path, folder: Path, order: Order) -> Found:
    """The image of an order that fits a program with this environment."""
    environ = {**environment.own(), **order.environ}
    why = "the folder has no such image"
    for path in sorted(folder.absolute().glob(f"{_begin(order)}-*.img")):
        reason = why_not(stub, path, environ, order.options)
        if reason is None:
            return Found(path)
        why = reason
    return Found(None, why)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time builds into a folder, which is made.

    Raises:
        ImageFailed: nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locks.locked(folder.resolve()):
            yield
    except OSError as error:
        raise ImageFailed(
            f"{folder} cannot be used: {error.strerror or error}", hint="name a folder of your own"
        ) from None


def place(folder: Path, order: Order, environ: Mapping[str, str], stub: Path) -> Path:
    """Where the image of an order is on this machine, for programs with an environment."""
    facts = [fact for fact in host.facts(stub) if fact.rule == _SAME]
    counted = sorted(pair for pair in environ.items() if not is_uncounted(pair[0]))
    return folder / f"{_begin(order)}-{_digest([facts, counted])}.img"


def prune(folder: Path) -> None:
    """Remove the images that were made first, beyond what a start looks at."""
    found = sorted(folder.glob("*.img"), key=lambda path: -path.stat().st_mtime)
    for path in found[MAX_IMAGES:]:
        path.unlink(missing_ok=True)


def _begin(order: Order) -> str:
    wanted = dataclasses.asdict(order.for_builder)
    return _digest([wanted, sorted(order.environ.items())])


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:16]
