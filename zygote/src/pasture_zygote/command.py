"""`pasture zygote`: processes that start with their modules loaded.

Owns arguments and the tables.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pasture.display.atomic import write_json
from pasture.display.sections import OrderedGroup
from pasture.errors import UsageError

_BUILD_TIMEOUT_S = 600.0


@click.group("zygote", cls=OrderedGroup)
def command() -> None:
    """Start Python in milliseconds, with modules loaded and shared.

    A zygote holds an image of an interpreter that has loaded modules. `pasture-python` stands
    wherever a Python is asked for, and starts out of that image. See docs/zygote.md.
    """


_NAME = click.option("--name", default="", metavar="NAME", help="Of the zygote.")


@command.command("start")
@click.option("--preload", default="", metavar="MODULE,...", help="Modules to load.")
@click.option("--name", default="default", show_default=True, metavar="NAME", help="Of the zygote.")
@click.option("--base", default="", metavar="NAME", help="Zygote to make it on top of.")
@click.option(
    "--options", default="", metavar="OPTIONS", help="Of Python, as in --options='-u -X dev'."
)
@click.option(
    "--rehearse",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    default=None,
    metavar="FILE",
    help="Program that does what programs will do: code that it runs lies together.",
)
@click.option("--foreground", is_flag=True, help="Serve in this process, as for systemd.")
def start(
    preload: str, name: str, base: str, options: str, rehearse: str | None, foreground: bool
) -> None:
    """Load modules, and hand out processes that have them.

    Returns when the zygote is ready. A server in the background is started if none runs. The
    zygote is for the environment that this command has.
    """
    from pasture_zygote import starter
    from pasture_zygote.place import require_name

    fields = {
        "name": require_name(name),
        "base": base,
        "preload": [word for word in (w.strip() for w in preload.split(",")) if word],
        "options": split_options(options),
        "python": python(),
        "environ": starter.own(),
        "rehearse": rehearse or "",
    }
    if foreground:
        _serve(fields)
        return
    from pasture_zygote.client import ask, start_server

    start_server()
    status = ask({"do": "start", **fields}, timeout_s=_BUILD_TIMEOUT_S)
    _print([z for z in status["zygotes"] if z["name"] == name])


@command.command("status")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Write as JSON."
)
def status(json_file: Path | None) -> None:
    """Show the zygotes of this user."""
    from pasture_zygote.client import ask

    found = ask({"do": "status"})
    if json_file is not None:
        write_json(json_file, found)
    _print(found["zygotes"])
    _print_refused("no zygote", found.get("refused", {}))


@command.command("reload")
@_NAME
def reload(name: str) -> None:
    """Make all zygotes again, or one with those on top of it."""
    from pasture_zygote.client import ask

    _print(ask({"do": "reload", "name": name}, timeout_s=_BUILD_TIMEOUT_S)["zygotes"])


@command.command("stop")
@_NAME
def stop(name: str) -> None:
    """Stop the server, or one zygote with those on top of it. Running programs go on."""
    from pasture_zygote.client import ask

    ask({"do": "stop", "name": name})


def _serve(fields: dict[str, Any]) -> None:
    from pasture_zygote.listen import listener
    from pasture_zygote.server import Server
    from pasture_zygote.tree import Plan

    server = Server(listener(), os.dup(2))
    if fields["base"]:
        raise UsageError("a server that begins has no zygote to make this one on top of")
    fields = {key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()}
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        fields["environ"].pop(name, None)
    server.start(Plan(**fields))
    server.serve()


def python() -> str:
    """The interpreter that images are for: the one beside this program."""
    from pasture_zygote.place import python_of

    return python_of(sys.executable)


def split_options(options: str) -> list[str]:
    """Options one by one, as the stub splits them: `-uX dev` is `-u`, `-X`, `dev`."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise UsageError(f"--options makes no sense: {error}") from None
    found: list[str] = []
    while words:
        word = words.pop(0)
        if not word.startswith("-") or len(word) < 2 or word.startswith("--"):
            raise UsageError(f"{word} is no option of one letter", hint="as in --options='-u'")
        for at, letter in enumerate(word[1:], 2):
            if letter not in "bBdEIOPqRsSuvxWX":
                raise UsageError(f"no zygote can be made with -{letter}")
            found.append(f"-{letter}")
            if letter in "WX":
                if not word[at:] and not words:
                    raise UsageError(f"-{letter} needs an argument")
                found.append(word[at:] or words.pop(0))
                break
    return found


def _print(zygotes: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from pasture.display.terminal import output_terminal
    from pasture.trust.untrusted_text import printable

    table = Table(box=None, pad_edge=False)
    for title in ("zygote", "base", "state", "modules", "own memory", "served", "options", ""):
        table.add_column(title, justify="right" if title in ("modules", "served") else "left")
    for z in zygotes:
        own = f"{z['bytes'] / 1e6:.1f} MB" if z["bytes"] else ""
        words = (z["name"], z["base"], z["state"], f"{z['modules']}", own, f"{z['served']}")
        table.add_row(*(printable(word) for word in (*words, " ".join(z["options"]), z["problem"])))
    output_terminal().print(table)
    for z in zygotes:
        for note in z["notes"]:
            output_terminal().print(printable(f"{z['name']}: {note['text']}"), markup=False)
        _print_refused(z["name"], z["refused"])


def _print_refused(name: str, refused: Mapping[str, int]) -> None:
    """Say how many programs `python` ran instead, and why, the most frequent reason first."""
    from pasture.display.terminal import output_terminal
    from pasture.trust.untrusted_text import printable

    for reason, count in sorted(refused.items(), key=lambda item: -item[1]):
        line = f"{name}: left to python {count} {'time' if count == 1 else 'times'}: {reason}"
        output_terminal().print(printable(line), markup=False)
