"""Measures what the imports of a program cost: time, memory, and what imports what.

Each program's modules are imported in a process of its own, which is started as a builder is and
has loaded what each image has. Time and memory are measured in different processes: reading memory
takes time, and reads what the other one needs from the disk.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasture.errors import ZygoteFailed
from pasture_zygote.recorded import is_installed_file

_TIMEOUT_S = 300.0
_PROGRAM = "import pasture_zygote.fit_costs as costs; costs.main()"
_WITH_EACH_IMAGE = ("begin", "builder", "copying", "observed", "rehearsal", "variables")


@dataclass(frozen=True, slots=True)
class Load:
    """A module that was imported.

    Attributes:
        within: index of the import that it was part of; -1 for none.
        seconds: and
        bytes: without what it imports itself.
    """

    name: str
    within: int
    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Loads:
    """All that a program imports, in the order in which the imports began.

    Attributes:
        missing: modules that could not be imported, and why.
    """

    loads: tuple[Load, ...]
    missing: Mapping[str, str]


def measure(
    names: Sequence[str], python: str, options: Sequence[str], environ: Mapping[str, str]
) -> Loads:
    """Import modules in processes that are thrown away.

    Raises:
        ZygoteFailed: such a process has not ended as it should.
    """
    sized, timed = (_run(names, python, options, environ, what) for what in "mt")
    seconds = {one.name: one.seconds for one in timed.loads}
    loads = tuple(
        Load(one.name, one.within, seconds.get(one.name, 0.0), one.bytes) for one in sized.loads
    )
    return Loads(loads, sized.missing)


def _run(
    names: Sequence[str],
    python: str,
    options: Sequence[str],
    environ: Mapping[str, str],
    what: str,
) -> Loads:
    try:
        done = subprocess.run(
            [python, *options, "-c", _PROGRAM, what], input=json.dumps(names), env=environ, cwd="/",
            capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, start_new_session=True,
        )  # fmt: skip
        answer = json.loads(done.stdout.splitlines()[-1])
        return Loads(tuple(Load(*one) for one in answer["loads"]), dict(answer["missing"]))
    except (subprocess.SubprocessError, OSError, ValueError, LookupError, TypeError) as error:
        raise ZygoteFailed(
            f"the imports of {', '.join(names)[:200]} cannot be measured: {type(error).__name__}"
        ) from None


def main() -> None:
    """Import what standard input names; print what came of it as the last line."""
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    for name in _WITH_EACH_IMAGE:
        importlib.import_module(f"pasture_zygote.{name}")
    names = json.load(sys.stdin)
    found = _import_all(names, time.perf_counter if sys.argv[1] == "t" else _anonymous_bytes)
    print()
    print(json.dumps(found), flush=True)
    os._exit(0)  # threads of what was imported


def _import_all(names: Iterable[str], read: Callable[[], float]) -> dict[str, Any]:
    watch = _Watch(read)
    missing = {}
    for name in names:
        why = _why_not(name)
        if why is None:
            try:
                importlib.import_module(name)
            except (Exception, SystemExit) as error:
                why = f"{type(error).__name__}: {error}"[:200]
        if why is not None:
            missing[name] = why
    is_time = read is time.perf_counter
    loads = [
        (name, within, used if is_time else 0.0, 0 if is_time else int(used))
        for name, within, used in watch.loads()
    ]
    return {"loads": loads, "missing": missing}


def _why_not(name: str) -> str | None:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return None
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return "it is not there any more"
    if not is_installed_file(spec.origin or ""):
        return "it is no installed package's"
    return None


class _Watch:
    """Stands around the import of each module: importlib's own function for one."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._open: list[int] = []
        self._names: list[str] = []
        self._within: list[int] = []
        self._used: list[float] = []
        bootstrap: Any = importlib._bootstrap
        self._load = bootstrap._find_and_load_unlocked
        bootstrap._find_and_load_unlocked = self._watched

    def _watched(self, name: str, *rest: object, **named: object) -> object:
        index = len(self._names)
        self._names.append(name)
        self._within.append(self._open[-1] if self._open else -1)
        self._used.append(0.0)
        self._open.append(index)
        before = self._read()
        try:
            return self._load(name, *rest, **named)
        finally:
            used = self._read() - before
            self._open.pop()
            self._used[index] += used
            within = self._within[index]
            if within >= 0 and name in sys.modules:  # else the other one tries it each time
                self._used[within] -= used

    def loads(self) -> list[tuple[str, int, float]]:
        """Name, index of the import around it, and what it used itself, of each that succeeded."""
        places: dict[int, int] = {}
        found: list[tuple[str, int, float]] = []
        for index, name in enumerate(self._names):
            if name in sys.modules:
                places[index] = len(found)
                within = self._within[index]
                while within >= 0 and within not in places:
                    within = self._within[within]
                found.append((name, places.get(within, -1), max(0.0, self._used[index])))
        return found


def _anonymous_bytes() -> float:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return 1024.0 * int(line.split()[1])
    raise ValueError("the kernel does not say how much memory is anonymous")
