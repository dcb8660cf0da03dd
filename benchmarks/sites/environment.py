"""The environment of a site, with pasture out of a wheel of this repository, and its data."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.sites.site import APPS, BUILD, HERE, REPOSITORY, Site

UV = REPOSITORY / "tools" / "uv"
_OWN = "PASTURE_"


class SiteFailed(Exception):
    """A step of one site failed; the others go on."""


def run(command: Sequence[object], env: Mapping[str, str] | None = None, cwd: Path = HERE) -> str:
    """Run a command; returns what it wrote.

    Raises:
        SiteFailed: with the end of what it wrote.
    """
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        told = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise SiteFailed(f"{' '.join(words[:6])} ended with {done.returncode}:\n{told}")
    return done.stdout + done.stderr


def interpreter(minor: str) -> Path:
    """The interpreter of a minor version that `make test` uses.

    Raises:
        SiteFailed: it is not there yet.
    """
    python = REPOSITORY / ".venvs" / minor / "bin" / "python"
    if not python.exists():
        raise SiteFailed(f"no CPython {minor} here: make .venvs/{minor}/.stamp")
    return python


def lock(site: Site) -> None:
    """Pin the versions of a site anew."""
    if site.lock:
        return
    asked = BUILD / f"{site.name}.in"
    asked.parent.mkdir(parents=True, exist_ok=True)
    asked.write_text("\n".join(site.packages) + "\n")
    python = interpreter(site.python)
    told = ("--quiet", "--no-header", "--no-annotate", "--no-emit-index-url")
    run([UV, "pip", "compile", *told, "--python", python, asked, "-o", site.lock_file])


def make_environment(site: Site) -> Path:
    """Its interpreter, with the site's pinned packages and pasture as it is now."""
    python = site.environment / "bin" / "python"
    if not python.exists():
        shutil.rmtree(site.environment, ignore_errors=True)
        run([UV, "venv", "--quiet", "--python", interpreter(site.python), site.environment])
    pip = (UV, "pip", "install", "--quiet", "--python", python)
    run([*pip, "-r", site.lock_file])
    run([*pip, "--no-deps", "--reinstall", build_wheel(site.python)])
    run([*pip, "click", "psutil", "rich"])
    return python


def build_wheel(minor: str) -> Path:
    """pasture's wheel for a minor version; built again when a source is newer."""
    folder = BUILD / "wheels" / minor
    sources = [
        path for path in (REPOSITORY / "src").rglob("*.[chp]*") if "__pycache__" not in path.parts
    ]
    newest = max(path.stat().st_mtime for path in sources if path.is_file())
    for wheel in folder.glob("pasture-*.whl"):
        if wheel.stat().st_mtime > newest:
            return wheel
        wheel.unlink()
    run(
        [
            UV,
            "build",
            "--quiet",
            "--wheel",
            "--python",
            interpreter(minor),
            "-o",
            folder,
            REPOSITORY,
        ]
    )
    return next(folder.glob("pasture-*.whl"))


def variables(site: Site) -> dict[str, str]:
    """The environment of a site's processes."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    paths = [str(APPS)] if site.own else []
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths), **site.variables}


def prepare(site: Site, python: Path) -> None:
    """Make the site's database and what it is asked, unless they are there."""
    if (site.data / "urls.txt").exists():
        return
    site.data.mkdir(parents=True, exist_ok=True)
    script = f"make_{site.name.replace('-', '_')}.py"
    run([python, HERE / "prepare" / script], variables(site), site.data)
