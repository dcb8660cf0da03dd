"""The channels that are fuzzed: one name and one module of this folder each.

A module has a function `open_target`, a context manager that yields its target.
"""

from __future__ import annotations

import importlib
from collections import Counter
from contextlib import AbstractContextManager
from random import Random
from typing import Any, Protocol

TARGETS = {
    "mold": "a worker or mold to the arbiter of a server that reforks",
    "scoreboard": "words that workers share with their server and with readers of other users",
    "image_document": "what an image in a file says of itself, at `pasture image show` and `check`",
    "image_manifest": "descriptions of images at the reader of pasture-python, in C",
}


class Target(Protocol):
    """The taking end of a channel, made of the project's own code.

    Attributes:
        outcomes: how often a message came to which end.
    """

    outcomes: Counter[str]

    def sample(self, random: Random) -> bytes:
        """A message as a peer without fault sends it."""

    def take(self, data: bytes, random: Random) -> None:
        """Hand a message to the code that takes it.

        Raises:
            Exception: the code failed; or it did what no message may make it do.
        """


def open_target(name: str) -> AbstractContextManager[Target]:
    module: Any = importlib.import_module(name)
    opened: AbstractContextManager[Target] = module.open_target()
    return opened
