"""Runs of modules that are kept, so that a long comparison can be taken up again.

One file a run, build/cpython/INTERPRETER/KIND/MODULE.json. Beside the run it holds how it was
ordered, and names the pasture that was under test by a digest of its sources: a run of
another one is not taken for this one's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from outcomes import ModuleRun, Outcome


def digest_of(root: Path) -> str:
    """Of all that changes how a process under pasture behaves, below the repository's root."""
    files = [*(root / "src/native").rglob("*.[ch]"), *(root / "src/pasture/heap").glob("*.py")]
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
        kind: "plain", a mode, or one of these with "-again".
        words: for module_program.py.
        limit_s: time limit. A run that was ended earlier than that does not serve.
    """

    interpreter: str
    kind: str
    module: str
    words: Sequence[str] = ()
    limit_s: int = 0


class Store:
    """Kept runs below a folder. Runs of a kind "plain…" belong to every pasture."""

    def __init__(self, home: Path, digest: str, any_digest: bool = False) -> None:
        self._home = home
        self._any_digest = any_digest
        self.digest = digest

    def _file(self, order: Order) -> Path:
        return self._home / order.interpreter / order.kind / f"{order.module}.json"

    def get(self, order: Order) -> ModuleRun | None:
        """The run that was ordered, of this pasture or, if the store takes it, another; or None."""
        file = self._file(order)
        if not file.exists():
            return None
        document = json.loads(file.read_text(encoding="utf-8"))
        run, words, limit_s = document["run"], document["words"], document["limit_s"]
        of_this = self._any_digest or document["digest"] == self.digest
        if not (of_this or order.kind.startswith("plain")):
            return None
        if words != list(order.words) or (run["too_long"] and limit_s < order.limit_s):
            return None
        outcomes = {test: Outcome(*outcome) for test, outcome in run.pop("outcomes").items()}
        return ModuleRun(outcomes=outcomes, **run)

    def put(self, order: Order, run: ModuleRun) -> None:
        file = self._file(order)
        file.parent.mkdir(parents=True, exist_ok=True)
        fields = asdict(run)
        fields["outcomes"] = {
            test: [each.outcome, each.detail if each.bad or each.outcome == "skipped" else ""]
            for test, each in run.outcomes.items()
        }
        document = {"digest": self.digest, "words": list(order.words), "limit_s": order.limit_s}
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(document | {"run": fields}, indent=0), encoding="utf-8")
        partial.replace(file)

    def forget(self, modules: Mapping[str, Iterable[str]], modes: Iterable[str]) -> None:
        """Drop the runs of these modes, and plain ones. `modules`: by interpreter."""
        kinds = ["plain", "plain-again", "plain-middle-again"]
        kinds += [kind for mode in modes for kind in (mode, f"{mode}-again")]
        for interpreter, names in modules.items():
            for kind, name in product(kinds, names):
                self._file(Order(interpreter, kind, name)).unlink(missing_ok=True)

    def plain_seconds(self) -> dict[str, float]:
        """Wall time of each module's plain run, on any interpreter."""
        files = self._home.glob("*/plain/*.json")
        runs = {file.stem: json.loads(file.read_text(encoding="utf-8"))["run"] for file in files}
        return {module: run["seconds"] for module, run in runs.items()}
