"""`pasture image`: interpreters that start from a file, with their modules loaded.

Owns arguments and the tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pasture.display.atomic import write_json
from pasture.errors import UsageError, ZygoteFailed

_FILE = click.argument("file", type=click.Path(path_type=Path), metavar="FILE")


@click.group("image")
def command() -> None:
    """Keep an interpreter with its modules in a file, and start programs out of it.

    `PASTURE_IMAGE=FILE pasture-python ...` maps the file in the place of loading modules: after a
    reboot, in a fresh container, on a machine of the same kind. See docs/image.md.
    """


@command.command("build")
@click.option(
    *("-o", "--output", "path"),
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The image.",
)
@click.option("--preload", default="", metavar="MODULE,...", help="Modules to load.")
@click.option(
    "--rehearse",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    default=None,
    metavar="FILE",
    help="Program that does what programs will do: code that it runs lies together.",
)
@click.option(
    "--warm", multiple=True, metavar="URL", help="Request that the application serves before."
)
@click.option(
    "--warm-file",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="The same from a file, one a line; `Name: value` is a header of each.",
)
@click.option("--app", default="", metavar="MODULE:NAME", help="The application of --warm.")
@click.option(
    "--options", default="", metavar="OPTIONS", help="Of Python, as in --options='-u -X dev'."
)
@click.option(
    "--env", multiple=True, metavar="NAME[=VALUE]", help="Variable that modules find: no others."
)
@click.option(
    "--files",
    type=click.Choice(["checked", "unchecked"]),
    default="checked",
    show_default=True,
    help="Whether Python files are compared at each start, by time and size.",
)
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Fail if its content is in the image.",
)
@click.option(
    "--not-secret", multiple=True, metavar="NAME", help="Variable whose value may be in the image."
)
@click.option("--mode", default="600", show_default=True, metavar="OCTAL", help="Of the file.")
def build(
    path: Path,
    preload: str,
    rehearse: str | None,
    warm: tuple[str, ...],
    warm_file: tuple[Path, ...],
    app: str,
    options: str,
    env: tuple[str, ...],
    files: str,
    secret_file: tuple[Path, ...],
    not_secret: tuple[str, ...],
    mode: str,
) -> None:
    """Load modules in a process, and keep it in a file.

    Modules find the variables that matter to every start of Python, and those that --env names.
    The finished file is searched for the values of all others.
    """
    from pasture.display.atomic import require_writable
    from pasture.warmup.requests import read_lines
    from pasture_zygote import leaks, starter
    from pasture_zygote.command import python, split_options
    from pasture_zygote.image_build import Wanted, variables
    from pasture_zygote.image_build import build as build_image
    from pasture_zygote.tree import Plan

    require_writable(path)
    own = starter.own()
    environ = variables(own, env)
    secrets, too_short = leaks.of_variables(own, {*environ, *not_secret})
    for file in secret_file:
        secrets += leaks.of_file(file)
    modules = tuple(word for word in (w.strip() for w in preload.split(",")) if word)
    plan = Plan(
        "image", "", modules, python(), tuple(split_options(options)), environ, rehearse or ""
    )
    lines = (*warm, *(line for file in warm_file for line in read_lines(file)))
    document = build_image(
        path, Wanted(plan, files == "checked", app, lines, _mode(mode), tuple(secrets))
    )
    _print(path, document)
    if too_short:
        _say(f"too short to be looked for in the image: {', '.join(too_short)}")


@command.command("show")
@_FILE
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Write as JSON."
)
def show(file: Path, json_file: Path | None) -> None:
    """Show what an image holds, and what it depends on."""
    from pasture_zygote.image_file import read_document

    document = read_document(file)
    if json_file is not None:
        write_json(json_file, document)
    _print(file, document, in_full=True)


@command.command("check")
@_FILE
def check(file: Path) -> None:
    """Compare all of an image with its checksums, and start a program out of it."""
    from pasture_zygote import starter
    from pasture_zygote.builds import stub_of
    from pasture_zygote.command import python
    from pasture_zygote.image_build import why_not
    from pasture_zygote.image_file import read_document

    document = read_document(file)
    why = why_not(stub_of(python()), file.absolute(), starter.own(), document["options"])
    if why is not None:
        raise ZygoteFailed(f"{file} is complete, but no program starts out of it here: {why}")
    _say(f"{file} is complete, and programs start out of it here")


@command.command("remove")
@_FILE
def remove(file: Path) -> None:
    """Remove an image. Programs that run out of it go on."""
    from pasture_zygote import image_file

    image_file.remove(file)


def _mode(text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if mode & ~0o755 or not mode & 0o400:
        raise UsageError(
            f"an image cannot have the mode {text}",
            hint="others must not write to it: 600, 640 or 644",
        )
    return mode


def _say(text: str) -> None:
    from pasture.display.terminal import output_terminal
    from pasture.trust.untrusted_text import printable

    output_terminal().print(printable(text), markup=False, soft_wrap=True)


def _print(path: Path, document: dict[str, Any], *, in_full: bool = False) -> None:
    megabytes = path.stat().st_size / 1e6
    _say(f"{path}: {megabytes:.1f} MB, {len(document['modules'])} modules")
    if in_full:
        for line in _lines(document):
            _say(line)
    for note in document["notes"]:
        _say(note["text"])


def _lines(document: dict[str, Any]) -> list[str]:
    """What an image is made of, and what it depends on."""
    sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in document["sizes"].items())
    files = f"{len(document['files'])}, by size and time" if document["is_checked"] else "no others"
    return [
        f"made by pasture {document['pasture']} for {document['python']}, {document['version']}",
        f"options of Python: {' '.join(document['options']) or 'none'}",
        f"preloaded: {', '.join(document['preload']) or 'nothing'}",
        f"memory of its own: {sizes}",
        f"kernel: {document['kernel']}",
        f"processor: {document['processor']}, {document['processors']} of them",
        f"libraries that must be the same: {len(document['libraries'])}",
        f"files that must be the same: {files}",
        f"variables that must be the same: {', '.join(document['variables'])}",
        f"variables that it was made with: {', '.join(document['holds']) or 'none'}",
        f"the seal: {document['seal']}",
        "Programs out of it share the hash seed, addresses and the stack's canary: keep the file"
        " where only those may read it who may know them.",
    ]
