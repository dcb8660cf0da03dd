"""Runs of modules that are kept, so that a long comparison can be taken up again.

One file a run, build/cpython/INTERPRETER/KIND/MODULE.json. `KIND` is "plain", a mode, or
one of these with "-again". Beside what ModuleRun holds it names the pasture that was under
test by a digest of its sources: a run of another one is not taken for this one's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import asdict
from itertools import product
from pathlib import Path

from outcomes import ModuleRun, Outcome


def digest_of(root: Path) -> str:
    """Of all that changes how a process under pasture behaves, below the repository's root."""
    files = [*(root / "src/native").iterdir(), *(root / "src/pasture/heap").glob("*.py")]
    files += [root / "src/pasture/gc.py", root / "CMakeLists.txt"]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


class Store:
    """Kept runs below a folder. Runs of kind "plain…" belong to every pasture."""

    def __init__(self, home: Path, digest: str) -> None:
        self._home = home
        self.digest = digest

    def _file(self, interpreter: str, kind: str, module: str) -> Path:
        return self._home / interpreter / kind / f"{module}.json"

    def get(self, interpreter: str, kind: str, module: str, any_digest: bool) -> ModuleRun | None:
        """The run of that kind, if there is one of this pasture (or, told so, of any)."""
        file = self._file(interpreter, kind, module)
        if not file.exists():
            return None
        document = json.loads(file.read_text(encoding="utf-8"))
        digest = document.pop("digest")
        if not (any_digest or kind.startswith("plain") or digest == self.digest):
            return None
        outcomes = {test: Outcome(*outcome) for test, outcome in document.pop("outcomes").items()}
        return ModuleRun(outcomes=outcomes, **document)

    def put(self, interpreter: str, kind: str, run: ModuleRun) -> None:
        file = self._file(interpreter, kind, run.module)
        file.parent.mkdir(parents=True, exist_ok=True)
        document = asdict(run) | {"digest": self.digest}
        document["outcomes"] = {
            test: [each.outcome, each.detail if each.bad or each.outcome == "skipped" else ""]
            for test, each in run.outcomes.items()
        }
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(document, indent=0) + "\n", encoding="utf-8")
        partial.replace(file)

    def forget(
        self, interpreters: Iterable[str], modes: Iterable[str], modules: Collection[str]
    ) -> None:
        """Drop the runs of these modes, and plain ones, of these modules; of all if none."""
        kinds = ["plain", "plain-again", "plain-middle-again"]
        kinds += [kind for mode in modes for kind in (mode, f"{mode}-again")]
        for interpreter, kind in product(interpreters, kinds):
            for file in (self._home / interpreter / kind).glob("*.json"):
                if not modules or file.stem in modules:
                    file.unlink()

    def plain_seconds(self, interpreters: Iterable[str]) -> dict[str, float]:
        """Wall time of each module's plain run; of the last interpreter that has one."""
        seconds: dict[str, float] = {}
        for interpreter in interpreters:
            for file in (self._home / interpreter / "plain").glob("*.json"):
                document = json.loads(file.read_text(encoding="utf-8"))
                seconds[document["module"]] = document["seconds"]
        return seconds
