"""What a site is: its packages, how it is started, and where what belongs to it lies."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SITES = HERE / "sites.toml"
APPS = HERE / "apps"
BUILD = REPOSITORY / "build" / "sites"
DATA = REPOSITORY / "var" / "bench-sites"


@dataclass(frozen=True, slots=True)
class Site:
    """One application.

    Attributes:
        python: minor version.
        packages: as a user would ask for them; `locks/` has all versions.
        app: as gunicorn names it.
        arguments: of gunicorn.
        env: variables; `{data}` stands for the folder of the site's data, and `{packages}` for
            that of its packages.
        sealed: variables of the sealed server alone.
        chdir: below that folder.
        own: its module lies in `apps/`.
        lock: name of the site whose environment it uses; "" for its own.
        note: what a reader must know of its figures, in whole sentences.
    """

    name: str
    about: str
    python: str
    packages: tuple[str, ...]
    app: str
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    sealed: Mapping[str, str] = field(default_factory=dict)
    chdir: str = ""
    own: bool = False
    lock: str = ""
    note: str = ""

    @property
    def data(self) -> Path:
        return DATA / self.name

    @property
    def environment(self) -> Path:
        return BUILD / (self.lock or self.name)

    @property
    def lock_file(self) -> Path:
        return HERE / "locks" / f"{self.lock or self.name}.txt"

    @property
    def result(self) -> Path:
        return DATA / f"{self.name}.json"

    @property
    def variables(self) -> dict[str, str]:
        packages = self.environment / "lib" / f"python{self.python}" / "site-packages"
        stands_for = {"{data}": str(self.data), "{packages}": str(packages)}
        return {name: _replace(value, stands_for) for name, value in self.env.items()}


def _replace(value: str, stands_for: Mapping[str, str]) -> str:
    for name, text in stands_for.items():
        value = value.replace(name, text)
    return value


def read_sites(path: Path) -> dict[str, Site]:
    """All sites of a file, by name."""
    tables = tomllib.loads(path.read_text())
    return {name: _site(name, values) for name, values in tables.items()}


def _site(name: str, values: dict[str, Any]) -> Site:
    lists: dict[str, Any] = {key: tuple(values.pop(key, ())) for key in ("packages", "arguments")}
    return Site(name=name, **lists, **values)
