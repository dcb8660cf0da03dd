"""A site's environment, with pasture out of wheels of this tree, and its data.

Data are made once, by the site's own interpreter, and copied back before each run, so that every
run begins with the same rows and files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from matrix.environments import build_pasture, find_interpreter, uv
from matrix.sites.catalog import REPOSITORY, Site

PREPARE_S = 900.0


def lock(site: Site) -> None:
    """Pin the versions of a site again."""
    asked = site.folder / "packages.in"
    asked.parent.mkdir(parents=True, exist_ok=True)
    asked.write_text("\n".join(site.packages) + "\n")
    words = ("--quiet", "--no-header", "--no-annotate", "--no-emit-index-url")
    python = find_interpreter(site.python)
    uv("pip", "compile", *words, "--python", python, asked, "-o", site.lock_file)


def make_environment(site: Site) -> None:
    """Its interpreter, with the pinned packages, pasture and its start file as they are now."""
    python = site.python_program
    if not python.exists():
        shutil.rmtree(site.environment, ignore_errors=True)
        uv("venv", "--quiet", "--python", find_interpreter(site.python), site.environment)
    if not site.lock_file.exists():
        lock(site)
    pip = ("pip", "install", "--quiet", "--python", python)
    uv(*pip, "-r", site.lock_file)
    uv(
        *pip,
        "--no-deps",
        "--reinstall",
        build_pasture(site.python),
        REPOSITORY / "packages" / "auto",
    )
    uv(*pip, "click", "rich")


def variables(site: Site, services: Mapping[str, str]) -> dict[str, str]:
    """The environment of the site's processes, without anything of a pasture around it."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PASTURE", "PYTHON"))}
    own = {name: site.filled(value, services) for name, value in site.env.items()}
    path = f"{site.environment / 'bin'}{os.pathsep}{inherited.get('PATH', '')}"
    # One seed for all runs: pages show the order of sets.
    return {**inherited, "PATH": path, "PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "0", **own}


def run(command: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> int:
    """Run a command of the site's to its end; its exit code. The log has what it printed."""
    with log.open("ab") as output:
        done = subprocess.run(
            command, env=env, cwd=cwd, stdout=output, stderr=output, timeout=PREPARE_S
        )
    return done.returncode


def restore_data(site: Site, services: Mapping[str, str]) -> None:
    """The folder of data as it was first made. With services, which start empty, made again.

    Raises:
        click.ClickException: the script that makes it failed.
    """
    pristine = site.folder / "pristine"
    shutil.rmtree(site.data, ignore_errors=True)
    if pristine.exists() and not site.services:
        shutil.copytree(pristine, site.data, symlinks=True)
        return
    site.data.mkdir(parents=True)
    script = site.prepare_script
    if script.exists():
        log = site.folder / "prepare.log"
        log.unlink(missing_ok=True)
        words = [str(site.python_program), str(script)]
        if run(words, variables(site, services), site.data, log) != 0:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise click.ClickException(f"{site.name}: its data cannot be made\n{end}")
    shutil.rmtree(pristine, ignore_errors=True)
    shutil.copytree(site.data, pristine, symlinks=True)
