"""The environment of a site, with pasture out of a wheel of this repository, and its data."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from benchmarks.matrix.environments import build_pasture, find_interpreter, uv
from benchmarks.sites.site import APPS, BUILD, HERE, Site

_OWN = "PASTURE_"


def run(command: Sequence[object], env: Mapping[str, str] | None = None, cwd: Path = HERE) -> str:
    """Run a command; returns what it wrote.

    Raises:
        click.ClickException: with the end of what it wrote.
    """
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        lines = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise click.ClickException(f"{' '.join(words[:6])} ended with {done.returncode}:\n{lines}")
    return done.stdout + done.stderr


def lock(site: Site) -> None:
    """Pin the versions of a site anew."""
    if site.lock:
        return
    asked = BUILD / f"{site.name}.in"
    asked.parent.mkdir(parents=True, exist_ok=True)
    asked.write_text("\n".join(site.packages) + "\n")
    python = find_interpreter(site.python)
    options = ("--quiet", "--no-header", "--no-annotate", "--no-emit-index-url")
    uv("pip", "compile", *options, "--python", python, asked, "-o", site.lock_file)


def make_environment(site: Site) -> Path:
    """Its interpreter, with the site's pinned packages and pasture as it is now."""
    python = site.environment / "bin" / "python"
    if not python.exists():
        shutil.rmtree(site.environment, ignore_errors=True)
        uv("venv", "--quiet", "--python", find_interpreter(site.python), site.environment)
    pip = ("pip", "install", "--quiet", "--python", python)
    uv(*pip, "-r", site.lock_file)
    uv(*pip, "--no-deps", "--reinstall", build_pasture(site.python))
    uv(*pip, "click", "rich")
    return python


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
