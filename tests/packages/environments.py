"""What a package's tests run in: an environment, and the tests' own files.

An environment holds the package, what its tests need and this tree's pasture, and stays below
build/packages; source distributions stay in the user's cache. Everything comes through pip
and uv, as `make setup` does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from catalog import Package

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
BUILD = REPOSITORY / "build" / "packages"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pasture" / "sdists"
BUILT_FROM = ("src", "CMakeLists.txt", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the tests of a package are run.

    Attributes:
        python: of the environment.
        root: folder that the ids of the tests are relative to.
    """

    python: Path
    root: Path


def run(*command: str | Path) -> str:
    """Run a command; what it printed to standard output.

    Raises:
        click.ClickException: it failed; its last words were on standard error.
    """
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    if done.returncode != 0:
        raise click.ClickException(f"failed: {' '.join(map(str, command))}")
    return done.stdout.strip()


def uv(*words: str | Path) -> str:
    return run(REPOSITORY / "tools" / "uv", *words)


def find_interpreter(minor: str) -> str:
    return run(REPOSITORY / "tools" / "interpreters", "path", minor)


def build_digest() -> str:
    """A hash of everything that pasture is built from."""
    digest = hashlib.sha256()
    for name in BUILT_FROM:
        top = REPOSITORY / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(file.relative_to(REPOSITORY).as_posix().encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def build_pasture(minor: str, check_build: bool) -> Path:
    """A wheel of this tree for one interpreter; the check build has the verifier in it."""
    folder = BUILD / "wheels" / f"{minor}{'-check' * check_build}-{build_digest()}"
    if not any(folder.glob("*.whl")):
        settings = ("--config-setting", "cmake.define.PASTURE_CHECK=ON") if check_build else ()
        python = find_interpreter(minor)
        uv("build", "--quiet", "--wheel", "--python", python, "--out-dir", folder, *settings)
    return next(folder.glob("*.whl"))


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
