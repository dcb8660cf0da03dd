"""Results that are kept, so that a long comparison can be taken up again where it was left.

Invariant: a result is given back for what it was made of, and nothing else. A reader sees the old
file or the new one; one that cannot be read is no result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from pasture.trust.records import decoded

Result = TypeVar("Result")
ANYTHING = object()
"""In place of what a result was made of: whatever that was."""


class Store(Generic[Result]):
    """A JSON file a result below a folder.

    Args:
        kind: of the results: a dataclass.
        decode: makes a result out of its JSON, in place of a kind.
    """

    def __init__(
        self,
        folder: Path,
        kind: type[Result] | None = None,
        decode: Callable[[Any], Result] | None = None,
    ) -> None:
        self.folder = folder
        self._decode = decode or partial(decoded, kind)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def keep(self, name: str, result: Result, of: object = None) -> None:
        """Keep a result, in place of an older one of the name.

        Args:
            of: what it was made of, as JSON has it: table entry, versions, a digest of the build.
        """
        self._write(name, {"of": of, "result": result})

    def kept(self, name: str, of: object = ANYTHING) -> Result | None:
        """What is kept under a name; None if that is nothing, or was made of something else."""
        found = self._read(name)
        try:
            # Tuples are lists there.
            if of is ANYTHING or found["of"] == json.loads(json.dumps(of)):
                return self._decode(found["result"])
        except (KeyError, TypeError, ValueError):
            pass
        return None

    def _read(self, name: str) -> Any:
        try:
            return json.loads(self.file(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        replace(self.file(name), json.dumps(document, indent=1, default=_plain) + "\n")


class Lines(Store[Result]):
    """A line a result in one file, which can be in git: a new result changes one line."""

    def _read(self, name: str) -> Any:
        return self._lines().get(name)

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        lines = self._lines() | {name: {"name": name, **document}}
        replace(
            self.folder,
            "".join(f"{json.dumps(lines[key], default=_plain)}\n" for key in sorted(lines)),
        )

    def _lines(self) -> dict[str, Any]:
        texts = self.folder.read_text(encoding="utf-8").splitlines() if self.folder.exists() else []
        return {line["name"]: line for line in map(json.loads, texts)}


def _plain(value: Any) -> dict[str, Any]:
    """A dataclass as JSON has it."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def replace(file: Path, text: str) -> None:
    """Write a file; a reader sees the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial_file = file.with_name(f".{file.name}.{os.getpid()}")
    partial_file.write_text(text, encoding="utf-8")
    partial_file.replace(file)
