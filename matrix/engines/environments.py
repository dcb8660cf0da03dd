"""Environments of engines: made by uv under build/engines/ from packages.toml, pasture in each.

The start file of `pasture[auto]` is in each, too: without its variable it imports nothing.

Owns where they are and when one is remade. Invariant: an environment with a stamp holds what the
file pins.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click

from matrix.environments import REPOSITORY, find_interpreter, uv

PINS = Path(__file__).with_name("packages.toml")
FOLDER = REPOSITORY / "build" / "engines"
DEFAULT_PYTHON = "3.14"
PASTURE = ("-e", ".", "-e", "packages/auto")


def pins_of(name: str) -> Mapping[str, Any]:
    """The table of packages.toml; empty for "".

    Raises:
        click.ClickException: there is no such table.
    """
    tables = tomllib.loads(PINS.read_text())
    if name and name not in tables:
        raise click.ClickException(f"{PINS.name} has no table [{name}]")
    return tables[name] if name else {}


@cache
def python_for(name: str) -> Path:
    """The interpreter of an environment, which is made if it is not there or pinned otherwise.

    Once in a process: what is there is not looked at again.

    Args:
        name: table of packages.toml; "" is the environment that this command runs in.

    Raises:
        click.ClickException: it cannot be made.
    """
    if not name:
        return Path(sys.executable)
    pins = pins_of(name)
    folder = FOLDER / name
    stamp, python = folder / ".pins.json", folder / "bin" / "python"
    if not (stamp.is_file() and python.exists() and json.loads(stamp.read_text()) == pins):
        click.echo(f"making {folder.relative_to(REPOSITORY)}", err=True)
        stamp.unlink(missing_ok=True)
        base = find_interpreter(str(pins.get("python", DEFAULT_PYTHON)))
        uv("venv", "--quiet", "--clear", "--python", base, folder)
        _install(python, pins)
        stamp.write_text(json.dumps(pins))
    # Builds again if the extension's sources have changed, and else does nothing.
    uv("pip", "install", "--quiet", "--python", python, *PASTURE)
    return python


def _install(python: Path, pins: Mapping[str, Any]) -> None:
    constraints = python.parents[1] / ".constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in pins.get("constraints", ())))
    words = ["--quiet", "--python", str(python), "--constraints", str(constraints)]
    uv("pip", "install", *words, *PASTURE, *pins["packages"])
