"""What an image says of itself for people: the document in its file.

Owns its keys and their types. A file may be another user's, and its checksums are no signature: so
all of it is checked when it is read, and none of it decides what is run.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from pasture.trust.records import decoded

MAX_BYTES = 64 << 20
_MAX_NUMBER = 1 << 63


class Remark(NamedTuple):
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
        seal: the seal's report, one line.
        sizes: bytes by where memory comes from.
        libraries: files that are mapped.
        files: other files that are compared.
        variables: names of those that must be the same.
        holds: names of those that it was made with.
        cpu: `native`, or "" for processors of the model `processor`.
        processors: of the machine of the build.
    """

    pasture: str
    python: str
    version: str
    options: tuple[str, ...]
    preload: tuple[str, ...]
    modules: tuple[str, ...]
    seal: str
    sizes: dict[str, int]
    libraries: tuple[str, ...]
    files: tuple[str, ...]
    variables: tuple[str, ...]
    holds: tuple[str, ...]
    notes: tuple[Remark, ...]
    kernel: str
    cpu: str
    processor: str
    processors: int

    def as_json(self) -> dict[str, Any]:
        """The same as it is in the file, and as `show --json` writes it."""
        found = dataclasses.asdict(self)
        found["notes"] = [note._asdict() for note in self.notes]
        return found


def parsed(data: bytes) -> Document:
    """A document out of a file.

    Raises:
        ValueError: no build writes that.
    """
    try:
        found: Document = _document(json.loads(data))
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    numbers = (found.processors, *found.sizes.values())
    if not all(0 <= number < _MAX_NUMBER for number in numbers):
        raise ValueError("a number is out of range")
    return found


def _document(fields: Any) -> Document:
    if type(fields) is not dict:
        raise ValueError("it is no object")
    notes = [[row[name] for name in Remark._fields] for row in fields["notes"]]
    found: Document = decoded(Document, {**fields, "notes": notes})
    return found
