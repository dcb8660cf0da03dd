"""What a package's tests run in: an environment, and the tests' own files.

An environment holds the package, what its tests need and this tree's pasture, and stays below
build/packages; source distributions stay in the user's cache. Everything comes through pip
and uv, as `make setup` does.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from catalog import Package

from matrix.environments import build_pasture, find_interpreter, run, uv

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
BUILD = REPOSITORY / "build" / "packages"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pasture" / "sdists"


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the tests of a package are run.

    Attributes:
        python: of the environment.
        root: folder that the ids of the tests are relative to.
    """

    python: Path
    root: Path


def prepare(package: Package, check_build: bool) -> Environment:
    """Make the package's environment, or bring it up to date, and unpack its tests."""
    folder = BUILD / "environments" / f"{package.name}-{package.python}{'-check' * check_build}"
    python = folder / "bin" / "python"
    if not python.exists():
        uv("venv", "--quiet", "--python", find_interpreter(package.python), folder)
    wheel = build_pasture(package.python, check_build)
    install(python, package, wheel)
    if package.source == "sdist":
        return Environment(python, unpack_tests(package))
    return Environment(python, site_packages(python))


def install(python: Path, package: Package, wheel: Path) -> None:
    wanted = [f"{package.name}=={package.version}", *package.requires]
    if package.runner == "pytest":
        wanted.append("pytest")
    words = ["pip", "install", "--quiet", "--python", python, "--only-binary", package.name]
    uv(*words, "--exclude-newer", package.newest, *wanted)
    # With what it depends on: a program that is sealed has them, too.
    uv("pip", "install", "--quiet", "--python", python, "--reinstall-package", "pasture", wheel)


def site_packages(python: Path) -> Path:
    return Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"))


def unpack_tests(package: Package) -> Path:
    """The folder with the tests, always as they came: a run may leave things there."""
    root = BUILD / "tests" / f"{package.name}-{package.version}"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    with tarfile.open(fetch_sdist(package)) as archive:
        members = [each for each in archive.getmembers() if is_wanted(each.name, package.unpack)]
        if not members:
            raise click.ClickException(f"{package.name}: nothing to unpack in its sdist")
        for member in members:
            member.name = member.name.partition("/")[2]
        archive.extractall(root, members, filter="data")
    return root


def is_wanted(member: str, wanted: Sequence[str]) -> bool:
    inner = member.partition("/")[2]
    return any(inner == each or inner.startswith(f"{each}/") for each in wanted)


def fetch_sdist(package: Package) -> Path:
    folder = CACHE / f"{package.name}-{package.version}"
    if not any(folder.glob("*.tar.gz")):
        command = [os.environ.get("PYTHON", "python3"), "-m", "pip", "download", "--quiet"]
        command += ["--no-deps", "--no-binary", package.name, "--ignore-requires-python"]
        run(*command, "--dest", folder, f"{package.name}=={package.version}")
    return next(folder.glob("*.tar.gz"))
