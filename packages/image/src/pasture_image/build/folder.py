"""Images that a folder keeps for `PASTURE_IMAGE=FOLDER/`: one for each machine and environment.

Owns their names, and whether one fits here. A name begins with what was ordered, and goes on with
the machine and the variables: an image that has become old is replaced, and the others stay.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pasture.errors import ImageFailed
from pasture.trust import locks, private_files
from pasture_image.build import host
from pasture_image.build.making import why_not
from pasture_image.inside import environment
from pasture_image.inside.order import Order
from pasture_image.inside.start_variables import is_uncounted

MAX_IMAGES = 32
"""Of a folder: environments that differ at each start (an id of a job) would fill it."""
_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.img")


def find(stub: Path, folder: Path, order: Order) -> tuple[Path | None, str]:
    """The image of an order that fits a program with this environment; or None, and why not."""
    environ = {**environment.own(), **order.environ}
    why = "the folder has no such image"
    for path in sorted(folder.absolute().glob(f"{_begin(order)}-*.img")):
        reason = why_not(stub, path, environ, order.options)
        if reason is None:
            return path, ""
        why = reason
    return None, why


@contextmanager
def locked(folder: Path, say: Callable[[str], object]) -> Iterator[None]:
    """One process at a time builds into a folder, which is made.

    Args:
        say: called with a line if another one builds, which is waited for.

    Raises:
        ImageFailed: nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        private_files.require_writable(folder.resolve() / "any")
        file = folder / ".lock"  # other users could lock the folder itself
        number = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ImageFailed(
            f"{folder} cannot be used: {error.strerror or error}", hint="name a folder of your own"
        ) from None

    def wait(_: float) -> None:
        say(f"{folder}: waiting for another build")
        locks.lock(number)

    with os.fdopen(number):
        locks.lock(number, wait)
        yield


def place(folder: Path, order: Order, stub: Path) -> Path:
    """Where the image of an order is on this machine, for programs with this environment."""
    counted = sorted(pair for pair in environment.own().items() if not is_uncounted(pair[0]))
    return folder / f"{_begin(order)}-{_digest([host.facts(stub), counted])}.img"


def prune(folder: Path, made: Path) -> None:
    """Remove the images of ours that were made first, beyond what a start looks at."""
    times = dict[Path, float]()
    for path in folder.iterdir():
        with suppress(OSError):
            if _NAME.fullmatch(path.name) and path.name != made.name:
                times[path] = path.lstat().st_mtime
    for path in sorted(times, key=times.__getitem__, reverse=True)[MAX_IMAGES - 1 :]:
        path.unlink(missing_ok=True)


def _begin(order: Order) -> str:
    return _digest([dataclasses.asdict(order.for_builder), sorted(order.environ.items())])


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:16]
