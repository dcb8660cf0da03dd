"""Runs of modules that are kept, so that a long comparison can be taken up again.

One file a run, build/cpython/INTERPRETER/KIND/MODULE.json. Besides the run it holds how it was
ordered, and names the pasture that was under test by a digest of its sources: a run of
another one is not taken for this one's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from outcomes import ModuleRun, Outcome

from matrix.store import Store as Files


def digest_of(root: Path) -> str:
    """Of all that changes how a process under pasture behaves, below the repository's root."""
    files = [*(root / "src/native").rglob("*.[ch]"), *(root / "src/pasture/sealing").glob("*.py")]
    files += [root / "src/pasture/gc.py", root / "CMakeLists.txt"]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Order:
    """How a module is to be run; a kept run serves if it was run like that.

    Attributes:
        interpreter: as in "3.14".
        kind: a mode, "plain", or "plain-" and a mode; each with "-again" for a second run.
        words: for module_program.py.
        limit_s: time limit. A run that was ended earlier than that does not serve.
    """

    interpreter: str
    kind: str
    module: str
    words: Sequence[str] = ()
    limit_s: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """A run, how it was ordered, and the pasture that was under test."""

    digest: str
    words: tuple[str, ...]
    limit_s: int
    run: ModuleRun


class Store:
    """Kept runs below a folder. Runs of a kind "plain…" belong to every pasture."""

    def __init__(self, home: Path, digest: str, any_digest: bool = False) -> None:
        self._home = home
        self._files: Files[Kept] = Files(home, Kept)
        self._any_digest = any_digest
        self.digest = digest

    def get(self, order: Order) -> ModuleRun | None:
        """The run that was ordered, of this pasture or, if the store takes it, another; or None."""
        kept = self._files.kept(_name(order))
        if kept is None or kept.words != tuple(order.words):
            return None
        if not (self._any_digest or kept.digest == self.digest or order.kind.startswith("plain")):
            return None
        return None if kept.run.too_long and kept.limit_s < order.limit_s else kept.run

    def put(self, order: Order, run: ModuleRun) -> None:
        outcomes = {
            test: each if each.bad or each.outcome == "skipped" else Outcome(each.outcome)
            for test, each in run.outcomes.items()
        }
        run = replace(run, outcomes=outcomes)
        self._files.keep(_name(order), Kept(self.digest, tuple(order.words), order.limit_s, run))

    def forget(self, modules: Mapping[str, Iterable[str]], modes: Iterable[str]) -> None:
        """Drop the runs of these modes, and plain ones. `modules`: by interpreter."""
        kinds = [
            "plain",
            "plain-again",
            "plain-middle-again",
            "plain-moments",
            "plain-moments-again",
        ]
        kinds += [kind for mode in modes for kind in (mode, f"{mode}-again")]
        for interpreter, names in modules.items():
            for kind, name in product(kinds, names):
                self._files.file(_name(Order(interpreter, kind, name))).unlink(missing_ok=True)

    def plain_seconds(self) -> dict[str, float]:
        """Wall time of each module's plain run, on any interpreter."""
        files = self._home.glob("*/plain*/*.json")
        found = {f.stem: self._files.kept(str(f.relative_to(self._home))[:-5]) for f in files}
        return {module: kept.run.seconds for module, kept in found.items() if kept is not None}


def _name(order: Order) -> str:
    return f"{order.interpreter}/{order.kind}/{order.module}"
