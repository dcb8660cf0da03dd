"""Which scripts are run and with which arguments: what catalog.toml and an environment say.

Pure reading.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix.environments import run

FILE = Path(__file__).with_name("catalog.toml")
CATALOG: Mapping[str, Any] = tomllib.loads(FILE.read_text(encoding="utf-8"))
MODULES = "modules"
"""Name of the environment of the standard library's modules."""
TO_ALL = (("--help",), ("--version",), ("--no-such-option",))

_SCRIPTS = """\
import importlib.metadata as metadata, json
found = {}
for one in metadata.distributions():
    name = one.metadata["Name"].lower()
    modules = {e.name: e.module for e in one.entry_points if e.group == "console_scripts"}
    plain = [p.name for p in one.files or () if p.parent.name == "bin" and not p.suffix]
    found[name] = {script: modules.get(script, "") for script in sorted({*modules, *plain})}
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A program and its arguments.

    Attributes:
        program: arguments of an interpreter: the path of a script, or `-m` and a module.
        module: of the script's function; "" if that is not known.
    """

    name: str
    program: Sequence[str]
    words: Sequence[str]
    module: str = ""

    @property
    def key(self) -> str:
        return " ".join((self.name, *self.words)).replace("/", "|")[:120]


def scripts(bin: Path) -> Iterator[tuple[str, str]]:
    """Names of an environment's scripts in Python and the modules of their functions, or "".

    Those of pasture are left out, and those of the installer.
    """
    found = json.loads(run(bin / "python", "-c", _SCRIPTS))
    for owner, names in found.items():
        if not owner.startswith(("pasture", "pip", "setuptools", "wheel")):
            for name, module in names.items():
                if (bin / name).is_file() and b"python" in (bin / name).read_bytes()[:200]:
                    yield name, module


def cases(application: str, bin: Path, others: set[str]) -> list[Case]:
    """What is run in an environment.

    Args:
        others: scripts that have been run in another environment; this one's are added.
    """
    modules: dict[str, str] = {}
    programs: dict[str, tuple[str, ...]]
    if application == MODULES:
        programs = {name: ("-m", name) for name in CATALOG["modules"]}
    else:
        modules = dict(scripts(bin))
        names = sorted(modules.keys() - others)
        others.update(names)
        programs = {name: (str(bin / name),) for name in names}
    return [
        Case(name, program, words, modules.get(name, ""))
        for name, program in programs.items()
        for words in (*TO_ALL, *CATALOG["more"].get(name, ()))
    ]
