"""What environments below build/ are made with: uv, interpreters, and wheels of this tree.

Shared by benchmarks and by tests that run in environments of their own.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import click

REPOSITORY = Path(__file__).resolve().parents[1]
WHEELS = REPOSITORY / "build" / "packages" / "wheels"
BUILT_FROM = ("src", "CMakeLists.txt", "pyproject.toml")


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
    """Run uv as tools/uv sets it up; what it printed."""
    return run(REPOSITORY / "tools" / "uv", *words)


def find_interpreter(minor: str) -> str:
    """Path of the interpreter of a minor version; it is obtained if it is not there."""
    return run(REPOSITORY / "tools" / "interpreters", "path", minor)


@cache
def build_digest(names: Iterable[str] = BUILT_FROM) -> str:
    """A hash of everything that pasture is built from, or of other files and folders.

    As they are at the first call: a long comparison is of one build.
    """
    digest = hashlib.sha256()
    for name in names:
        top = REPOSITORY / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(file.relative_to(REPOSITORY).as_posix().encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def build_pasture(minor: str, check_build: bool = False) -> Path:
    """A wheel of this tree for one interpreter; the check build has the verifier in it."""
    folder = WHEELS / f"{minor}{'-check' * check_build}-{build_digest()}"
    if not any(folder.glob("*.whl")):
        settings = ("--config-setting", "cmake.define.PASTURE_CHECK=ON") if check_build else ()
        python = find_interpreter(minor)
        uv("build", "--quiet", "--wheel", "--python", python, "--out-dir", folder, *settings)
    return next(folder.glob("*.whl"))


def build_companion(minor: str, name: str) -> Path:
    """A wheel of a distribution below packages/."""
    source = REPOSITORY / "packages" / name
    folder = WHEELS / f"{name}-{minor}-{build_digest((f'packages/{name}',))}"
    if not any(folder.glob("*.whl")):
        uv("build", "--quiet", "--wheel", "--python", find_interpreter(minor), "--out-dir", folder,
           source)  # fmt: skip
    return next(folder.glob("*.whl"))
