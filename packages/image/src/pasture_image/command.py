"""`pasture image`: interpreters that start from a file, with their modules loaded.

Owns arguments and the tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pasture.errors import ImageFailed, UsageError
from pasture_image.inside.notes import REFUSED
from pasture_tools.display.atomic import STANDARD_OUTPUT, write_json
from pasture_tools.display.json_option import json_option
from pasture_tools.display.sections import OrderedGroup, SectionedCommand

if TYPE_CHECKING:
    from rich.status import Status

    from pasture_image.build.document import Document
    from pasture_image.inside.order import Order

_MAX_BUILDS = 3
"""Of one image for this environment: with each more of its variables are in it."""


def _repeated(name: str, metavar: str, text: str) -> Callable[[Any], Any]:
    kind = click.Path(path_type=Path) if metavar == "FILE" else str
    return click.option(name, multiple=True, type=kind, metavar=metavar, help=text)


@click.group("image", cls=OrderedGroup)
def command() -> None:
    """Keep an interpreter with its modules in a file to start from.

    `PASTURE_IMAGE=FILE pasture-python ...` maps the file instead of loading modules: after a
    reboot, in a fresh container, on a machine of the same kind. The file `pasture-python.img` next
    to `pasture-python` needs no variable.
    """


@command.command(
    "build",
    cls=SectionedCommand,
    headings={
        **{"path": "Image", "options": "As programs have them"},
        "mode": "File",
    },
)
@click.option(
    *("-o", "--output", "path"),
    required=True,
    metavar="FILE|FOLDER/",
    help="The image, or a folder that keeps one for each circumstance.",
)
@_repeated("--preload", "MODULE,...", "Modules to load.")
@click.option(
    "--rehearse",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    metavar="FILE",
    help="Run this program during the build; the code that it uses is put together.",
)
@_repeated("--warm", "URL", "Request to serve before the copy.")
@_repeated(
    "--warm-file", "FILE", "The same from a file, one a line; `Name: value` is a header of each."
)
@click.option("--app", default="", metavar="MODULE:NAME", help="Application for --warm.")
@click.option(
    "--options", default="", metavar="OPTIONS", help="Options of Python: --options='-O -X dev'."
)
@_repeated(
    "--env", "NAME[=VALUE]", "Variable that modules see while they load; they see no others."
)
@_repeated("--env-prefix", "PREFIX", "The same of all variables that begin so.")
@click.option(
    "--allow",
    type=click.Choice(sorted(REFUSED)),
    multiple=True,
    metavar="KIND",
    help=f"Take over what no start can compare: {', '.join(sorted(REFUSED))}.",
)
@click.option(
    "--mode", type=click.Choice(["600", "640", "644"]), help="File mode. Without it, 600."
)
@click.argument("recipe", type=click.Path(path_type=Path), metavar="[RECIPE]", required=False)
def build(path: str, recipe: Path | None, **wanted: Any) -> None:
    """Load modules in a process, and keep it in a file.

    Modules find the variables that matter to every start of Python, and those that --env names.

    With FOLDER/, which is there or ends with a slash, an image is made unless one there fits: for
    `PASTURE_IMAGE=FOLDER/`, before programs start. Of many processes at once one builds, and the
    others wait for it. RECIPE is a file with options of this command, as `recipe` writes it.
    """
    from pasture_tools.display.atomic import require_writable

    if recipe is not None:
        wanted = _with_recipe(recipe, wanted)
    if path.endswith("/") or Path(path).is_dir():
        _ensure(Path(path), wanted)
    else:
        require_writable(Path(path))
        _make(Path(path), _order(wanted))


def _ensure(folder: Path, wanted: Mapping[str, Any]) -> None:
    """Build an image in a folder, unless the same one is there and fits."""
    from pasture_image.build import folder as kept

    stub, order = _stub(), _order(wanted)
    fitting, why = kept.find(stub, folder, order)
    if fitting is None:
        with kept.locked(folder, _say):
            fitting, why = kept.find(stub, folder, order)
            if fitting is None:
                _say(f"{folder}: {why}")
                made = kept.place(folder, order, stub)
                _make_to_fit(made, wanted)
                kept.prune(folder, made)
                return
    _say(f"{fitting} fits")


def _make_to_fit(path: Path, wanted: Mapping[str, Any]) -> None:
    """Make an image for programs with this environment: of what modules ask, each variable that
    says no secret is in it."""
    from pasture_image.inside import environment
    from pasture_image.inside.start_variables import says_secret

    for left in reversed(range(_MAX_BUILDS)):
        order = _order(wanted)
        known = environment.own().keys() - order.environ.keys()
        names = [
            name for name in _make(path, order)
            if name in known and not says_secret(name)
        ]  # fmt: skip
        if not names or not left:
            return
        wanted = {**wanted, "env": (*wanted["env"], *names)}
        _say(f"built again with {', '.join(names)}")


def _with_recipe(recipe: Path, given: dict[str, Any]) -> dict[str, Any]:
    """The options of a recipe, and behind them those that were given."""
    from pasture_image.build.recipe import words

    found = build.make_context("build", ["-o", "/", *words(recipe)]).params
    if found["recipe"] is not None:
        raise UsageError(f"{recipe} has {found['recipe']}", hint="begin options with --")
    return {
        name: (*found[name], *value) if isinstance(value, tuple) else value or found[name]
        for name, value in given.items()
    }


@command.command("recipe")
@click.option(
    *("-o", "--output", "path"),
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write it; without it standard output, and the program's goes to standard error.",
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def recipe(path: Path | None, words: tuple[str, ...]) -> None:
    """Run a program once by Python, and write the recipe of an image for it.

    The recipe names the modules that it imported and that load by themselves, up to the first
    change of its environment, which is in a comment. A server is stopped as usual, by Ctrl-C.
    `pasture image build -o FOLDER/ FILE` builds it.
    """
    from pasture.trust import private_files
    from pasture_image.build.recipe import watched
    from pasture_tools.display.atomic import require_writable

    if path is None:
        click.echo(watched(words, output=2), nl=False)
    else:
        require_writable(path)
        private_files.write(path, watched(words, output=None))


def _make(path: Path, order: Order) -> list[str]:
    """Build an image; returns variables for which programs with this environment do not use it."""
    from pasture_image.build.making import build as build_image
    from pasture_image.build.making import in_the_way
    from pasture_image.inside import environment

    with _status("loading modules and writing the image"):
        document = build_image(path, order)
    _print(path, document)
    if differing := in_the_way(_stub(), path, environment.own(), order):
        _say(
            "python runs programs with this environment, for the variables "
            f"{', '.join(differing)}: --env NAME has an image made with them"
        )
    return differing


def _order(given: Mapping[str, Any]) -> Order:
    """What is to be built."""
    from pasture.warmup.requests import read_lines
    from pasture_image.build.interpreter import python, split_options
    from pasture_image.build.making import variables
    from pasture_image.inside import environment
    from pasture_image.inside.order import Order

    environ, named = variables(environment.own(), given["env"], given["env_prefix"])
    words = ",".join(given["preload"]).split(",")
    modules = tuple(word for word in map(str.strip, words) if word)
    lines = (line for file in given["warm_file"] for line in read_lines(file))
    return Order(
        python(),
        modules,
        tuple(split_options(given["options"])),
        environ,
        named,
        given["rehearse"] or "",
        application=given["app"],
        warm=(*given["warm"], *lines),
        mode=int(given["mode"] or "600", 8),
        allow=given["allow"],
    )


@command.command("show")
@click.argument("file", type=click.Path(path_type=Path), metavar="[FILE]", required=False)
@click.option(
    "--check", is_flag=True, help="Compare all of it with its checksums, and start a program."
)
@json_option("what it holds")
def show(file: Path | None, check: bool, json_file: Path | None) -> None:
    """Show what an image holds, and what it depends on.

    Without FILE: `pasture-python.img` next to `pasture-python`.
    """
    from pasture_image.build import image_file

    file = file or Path(f"{_stub()}.img")
    with image_file.opened(file) as (image, document):
        if json_file is not None:
            write_json(json_file, document.as_json())
        if json_file != STANDARD_OUTPUT:
            _print(file, document, in_full=True)
        if check:
            _require_started(file, Path(f"/proc/{os.getpid()}/fd/{image.fileno()}"))
            _say(f"{file} is complete, and programs start out of it here")


def _stub() -> Path:
    from pasture_image.build.interpreter import python
    from pasture_image.build.process import stub_of

    return stub_of(python())


def _require_started(file: Path, image: Path) -> None:
    from pasture_image.build.making import why_not
    from pasture_image.inside import environment

    with _status("starting a program"):
        why = why_not(_stub(), image, environment.own())
    if why is not None:
        _, is_old, changed = why.partition(" has changed since the image was made: ")
        raise ImageFailed(
            f"{file} is out of date: {changed} has changed" if is_old
            else f"{file} is complete, but not for this machine and environment: {why}",
            hint="build it again",
        )  # fmt: skip


def _status(words: str) -> Status:
    """What is done meanwhile, on a terminal."""
    from pasture_tools.display.terminal import error_terminal

    return error_terminal().status(words)


def _say(text: str) -> None:
    from pasture.trust.untrusted_text import printable
    from pasture_tools.display.terminal import output_terminal

    output_terminal().print(printable(text), markup=False, soft_wrap=True)


def _print(path: Path, document: Document, *, in_full: bool = False) -> None:
    megabytes = path.stat().st_size / 1e6
    _say(f"{path}: {megabytes:.1f} MB, {len(document.modules)} modules")
    if in_full:
        for line in _lines(document):
            _say(line)
    for note in document.notes:
        _say(note.text)


def _lines(document: Document) -> list[str]:
    """What an image is made of, and what it depends on."""
    return [
        f"made by pasture {document.pasture} for {document.python}, {document.version}",
        f"options of Python: {' '.join(document.options) or 'none'}",
        f"preloaded: {', '.join(document.preload) or 'nothing'}",
        f"kernel: {document.kernel}",
        f"processor: {document.processor}",
        f"libraries that must be the same: {len(document.libraries)}",
        f"files that must be the same: {len(document.files)}",
        f"variables that must be the same: {', '.join(document.variables)}",
        f"variables that it was made with: {', '.join(document.holds) or 'none'}",
        "Programs out of it share the hash seed, addresses and the stack's canary: keep the file"
        " where only those may read it who may know them.",
    ]
