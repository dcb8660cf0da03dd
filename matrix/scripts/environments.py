"""An environment of each application, and images of two kinds in it.

`scripts` has the modules of the environment's own console scripts. `libraries` has what all other
distributions install, and not the application. A module that cannot be imported by itself is left
out, and so is one that the build refuses by name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import click

from matrix import environments
from matrix.environments import REPOSITORY, build_companion, build_digest, build_pasture, run, uv
from matrix.scripts.catalog import CATALOG, MODULES, scripts

MINOR = "3.14"
FOLDER = REPOSITORY / "build" / "scripts"
TIMEOUT_S = 1200.0
_USER = 65534
OTHER_USER = (
    *("unshare", "--net", "setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
"""Who builds images and starts programs: may read the interpreter where it is, and write only to
what is given to them (`give`)."""
KINDS = ("scripts", "libraries")
SCRATCH = FOLDER / "scratch"
"""Homes of programs, one an application, made for each start as the build left it."""

_LIBRARIES = """\
import importlib.metadata as metadata, json, sys
owned = metadata.packages_distributions()
print(json.dumps(sorted(
    name for name, owners in owned.items()
    if name.isidentifier() and not name.startswith("_") and not any(
        owner.lower().startswith((sys.argv[1], "pasture", "pip", "setuptools", "wheel"))
        for owner in owners
    )
)))
"""


@cache
def digest() -> str:
    """Of the build that results are made with."""
    return build_digest(
        (*environments.BUILT_FROM, "packages/image/src", "packages/image/CMakeLists.txt")
    )


def environment(application: str) -> Path:
    """The environment of an application, with pasture; returns its `bin`.

    Raises:
        click.ClickException: it cannot be installed.
    """
    folder = FOLDER / "environments" / application
    installed, of_tree = folder / "installed", folder / f"{digest()}.stamp"
    install = ("pip", "install", "--quiet", "--compile-bytecode", "--python", folder / "bin/python")
    newest = ("--exclude-newer", CATALOG["newest"])
    if not installed.exists():
        shutil.rmtree(folder, ignore_errors=True)
        uv("venv", "--quiet", "--python", environments.find_interpreter(MINOR), folder)
        if application != MODULES:
            uv(*install, *newest, application)
        installed.touch()
    if not of_tree.exists():
        uv(*install, "--reinstall-package", "pasture", "--reinstall-package", "pasture-image",
           build_pasture(MINOR), build_companion(MINOR, "image"))  # fmt: skip
        of_tree.touch()
    return folder / "bin"


def image(application: str, kind: str, bin: Path, alone: str = "") -> tuple[Path | None, str]:
    """An image of an environment, built where it is not there; or None and why there is none.

    Args:
        alone: the only module in it.
    """
    folder = bin.parent / "images" / digest()
    path, why = folder / f"{alone or kind}.img", folder / f"{alone or kind}.why"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists() and not why.exists():
        shutil.rmtree(SCRATCH / application, ignore_errors=True)
        environ = variables(bin, SCRATCH / application)
        for one in (folder, SCRATCH / application):
            give(one)
        names = [alone] if alone else _preloads(application, kind, bin)
        failed = _build(path, _importable(bin, names, environ), environ)
        if failed:
            why.write_text(failed)
        else:
            shutil.copytree(SCRATCH / application, home_of(path), symlinks=True)
    return (path, "") if path.exists() else (None, why.read_text())


def _preloads(application: str, kind: str, bin: Path) -> list[str]:
    if application == MODULES:
        names = CATALOG["modules"]
        return [name for name in names if name != "this"] if kind == "scripts" else ["decimal"]
    if kind == "libraries":
        found: list[str] = json.loads(run(bin / "python", "-c", _LIBRARIES, application))
        return found
    return sorted({module for _, module in scripts(bin) if module})


def _importable(bin: Path, modules: list[str], environ: Mapping[str, str]) -> list[str]:
    """Of some modules those that can be imported one after the other, in one process each ten."""
    found: list[str] = []
    for name in modules:
        done = subprocess.run(
            [*OTHER_USER, bin / "python", "-c", f"import {', '.join((*found[-10:], name))}"],
            env=environ, cwd="/", capture_output=True, timeout=TIMEOUT_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode == 0:
            found.append(name)
    return found


def _build(path: Path, modules: list[str], environ: Mapping[str, str]) -> str:
    """Build an image; why there is none, or ""."""
    why = "no module of it can be imported"
    while modules:
        done = subprocess.run(
            [*OTHER_USER, bin_of(path) / "pasture", "image", "build", "-o", path, "--mode", "644",
             "--preload", ",".join(modules)],
            env=environ, cwd="/", capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        click.echo(f"  {path}: {done.stdout[-2000:]}{done.stderr[-2000:]}", err=True)
        why = done.stderr.strip()[-500:]
        if done.returncode == 0:
            return ""
        named = set(re.findall(r"[\w.]+", why))
        left = [name for name in modules if not named & {name, name.partition(".")[0]}]
        if left == modules:
            break
        modules = left
    return why


def variables(bin: Path, home: Path) -> dict[str, str]:
    """Of a build and of programs, which have their home, empty, at the same place."""
    home.mkdir(parents=True, exist_ok=True)
    return {"PATH": f"{bin}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}


def give(folder: Path) -> None:
    """Hand a folder and all in it to the user that starts programs."""
    for path in (folder, *folder.rglob("*")):
        os.lchown(path, _USER, _USER)


def home_of(image: Path) -> Path:
    """The home folder as the build left it."""
    return image.with_suffix(".home")


def bin_of(image: Path) -> Path:
    return image.parents[2] / "bin"
