"""What an image says of itself for people: the document in its file.

Owns its keys and their types. A file may be another user's, and its checksums are no signature: so
all of it is checked when it is read, and none of it decides what is run.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from pasture.trust.records import decoded

MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Remark:
    """What programs get as it was when modules were loaded (`notes`)."""

    code: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """All of it.

    Attributes:
        pasture: version that made it.
        python: path of the interpreter, whose version is the next.
        options: of the interpreter.
        preload: modules that were named.
        modules: all that are loaded.
        libraries: files that are mapped.
        files: other files that are compared.
        variables: names of those that must be the same.
        holds: names of those that it was made with.
    """

    pasture: str
    python: str
    version: str
    options: tuple[str, ...]
    preload: tuple[str, ...]
    modules: tuple[str, ...]
    libraries: tuple[str, ...]
    files: tuple[str, ...]
    variables: tuple[str, ...]
    holds: tuple[str, ...]
    notes: tuple[Remark, ...]
    kernel: str
    processor: str

    def as_json(self) -> dict[str, Any]:
        """The same as it is in the file, and as `show --json` writes it."""
        return dataclasses.asdict(self)


def parsed(data: bytes) -> Document:
    """A document out of a file.

    Raises:
        ValueError: no build writes that.
    """
    try:
        found: Document = decoded(Document, json.loads(data))
    except (TypeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    return found
