"""The applications whose behaviour is compared: what sites.toml says of each.

Pure reading. Invariant: a `Site` holds all that decides how a run of it goes, so that two results
can be compared if theirs are equal.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILE = HERE / "sites.toml"
VERSIONS = HERE / "versions.toml"
MEASURED = HERE / "measured.toml"
AGES = ("oldest", "newest")
REPOSITORY = HERE.parent.parent
BUILD = REPOSITORY / "build" / "test-sites"


@dataclass(frozen=True, slots=True)
class Site:
    """One table of sites.toml; the keys are explained there.

    Attributes:
        serve: the plain command; `{port}`, `{data}`, `{packages}` and `{bin}` are replaced.
        beside: commands that run along with the server, under the same mode.
        env: variables, with the same replacements, and those of `services`.
        warm: paths that a warm-up requests.
        ready: the path that answers once the server has started.
        command: a command that ends by itself, run in the middle of a session.
        broken: variables with which the server's boot fails.
        recycle: a path that is asked until a worker has ended by itself, as it does after the
            number of requests in `serve`.
        refork: the generations of the mode `refork`; without them it has no such run.
        prepare: the script that makes its data, from the top of the repository; the default
            is prepare/make_NAME.py, which need not be there.
        session: whose session it has; the default is its own.
        start_s: how long the server may take to answer.
    """

    name: str
    about: str
    python: str
    packages: Sequence[str]
    serve: Sequence[str] = ()
    beside: Sequence[Sequence[str]] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    services: Sequence[str] = ()
    warm: Sequence[str] = ()
    ready: str = "/"
    command: Sequence[str] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    recycle: str = ""
    refork: str = ""
    prepare: str = ""
    session: str = ""
    reload: bool = True
    chdir: str = ""
    start_s: float = 120.0

    @property
    def folder(self) -> Path:
        """Where everything of it lies: environment, data, logs, results."""
        return BUILD / self.name

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def environment(self) -> Path:
        return self.folder / "environment"

    @property
    def lock_file(self) -> Path:
        return HERE / "locks" / f"{self.name}.txt"

    @property
    def prepare_script(self) -> Path:
        default = HERE / "prepare" / f"make_{self.name.replace('-', '_')}.py"
        return REPOSITORY / self.prepare if self.prepare else default

    @property
    def session_file(self) -> Path:
        return HERE / "sessions" / f"{(self.session or self.name).replace('-', '_')}.py"

    @property
    def python_program(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def packages_folder(self) -> Path:
        return self.environment / "lib" / f"python{self.python}" / "site-packages"

    def filled(self, text: str, variables: Mapping[str, str]) -> str:
        """A text of the table with its placeholders replaced."""
        known = {
            "data": str(self.data),
            "packages": str(self.packages_folder),
            "bin": str(self.environment / "bin"),
            "here": str(HERE),
            **variables,
        }
        for name, value in known.items():
            text = text.replace("{" + name + "}", value)
        return text

    def as_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class MeasuredSite(Site):
    """One table of measured.toml. Its environment is that of the site of the same name.

    Attributes:
        app: as gunicorn names it.
        arguments: of gunicorn.
        sealed: variables of the sealed server alone.
        lock: name of the site whose environment it uses; "" for its own.
        note: what a reader must know of its figures, in whole sentences.
    """

    app: str = ""
    arguments: Sequence[str] = ()
    sealed: Mapping[str, str] = field(default_factory=dict)
    lock: str = ""
    note: str = ""

    @property
    def folder(self) -> Path:
        return REPOSITORY / "var" / "bench-sites" / self.name

    @property
    def environment(self) -> Path:
        return BUILD / (self.lock or self.name) / "environment"

    @property
    def lock_file(self) -> Path:
        return HERE / "locks" / f"{self.lock or self.name}.txt"


def load_measured(file: Path = MEASURED) -> dict[str, MeasuredSite]:
    """Dict of name to site, in the order of the file."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: MeasuredSite(name=name, **table) for name, table in tables.items()}


def load_sites(file: Path = FILE) -> dict[str, Site]:
    """Dict of name to site, in the order of the file."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: Site(name=name, **table) for name, table in tables.items()}


def load_versions(file: Path = VERSIONS) -> dict[str, Site]:
    """Dict of name to site: each library of versions.toml, oldest and newest."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    found = [_of_age(name, table, age) for name, table in tables.items() for age in AGES]
    return {site.name: site for site in found}


def _of_age(library: str, table: Mapping[str, Any], age: str) -> Site:
    python, *packages = table[age]
    redis = {"REDIS_URL": "{REDIS_URL}"} if "redis" in table.get("services", ()) else {}
    return Site(
        name=f"{library}-{age}",
        about=f"{library}, the {age}",
        python=python,
        packages=[*packages, *table["packages"]],
        serve=table["serve"],
        beside=table.get("beside", ()),
        env={"PYTHONPATH": "{here}/apps", "SITE_DATA": "{data}", **redis},
        services=table.get("services", ()),
        warm=["/rows"],
        ready="/rows",
        session="rows",
    )
