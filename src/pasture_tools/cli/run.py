"""`pasture run SERVER ARGS`: a server command with its heap sealed before each fork.

Owns arguments only. The server replaces this process, so that neither the command line's
packages nor its frames are in the heap that is sealed.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from pasture import off
from pasture.errors import MissingExtra, UsageError, guess
from pasture.servers import one_process
from pasture.servers.engines import ENGINES, Row
from pasture.serving.setting import Setting
from pasture.serving.settings import SETTINGS, check_given, to_environment
from pasture.serving.starter import STUB, VARIABLE, is_python, starter
from pasture.trust.untrusted_text import printable
from pasture_tools import user_cache
from pasture_tools.display.sections import SectionedCommand

_SHEBANG = re.compile(
    # As pip and uv write them; the second form if the first is too long for the kernel.
    rb"#!\s*(?:/usr/bin/env\s+|/bin/sh\n'{3}exec' \"?)?([^\s\"]*python[\d.]*)"
)
_MAX_SHEBANG_BYTES = 1000

_UNNAMED = Path()
"""Value of `--auto` without a file."""

_MAX_FILES = 50
_SESSION = frozenset(
    (
        *("_", "COLUMNS", "INVOCATION_ID", "JOURNAL_STREAM", "LINES", "MAINPID", "OLDPWD", "PWD"),
        *("SHLVL", "STY", "SYSTEMD_EXEC_PID", "TERM", "WINDOWID"),
    )
)
_SESSION_PREFIXES = ("SSH_", "TERM_", "TMUX", "XDG_SESSION_")
"""Variables of the session that started a server. All others may belong to the program."""


def _option(row: Setting) -> click.Option:
    """The option of a setting. Without a value it is None or empty, and sets no variable."""
    kind = click.Choice(row.takes) if isinstance(row.takes, tuple) else row.takes
    return click.Option(
        [row.option, row.name],
        type=click.Path(path_type=Path) if kind is Path else kind,
        is_flag=kind is bool,
        multiple=row.repeats,
        default=None,
        metavar=row.metavar or None,
        help=row.help,
    )


class _Command(SectionedCommand):
    """Options, then the server's name and its own words. `--auto` needs no value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's own. Raises a UsageError where an option took the server's name as a value."""
        takes = {
            name for one in self.params if not getattr(one, "is_flag", True) for name in one.opts
        }
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] != "--":
            if args[at] == "--auto":
                args[at] = "--auto="
            at += 2 if args[at] in takes else 1
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError:
            self._look_for_server(words)
            raise
        if _engine_of(next(iter(ctx.params.get("command") or ()), "")) is None:
            self._look_for_server(words)
        return rest

    def _look_for_server(self, words: list[str]) -> None:
        """Raise the UsageError if the only name of a server follows an option."""
        options = (one for one in self.params if isinstance(one, click.Option) and not one.is_flag)
        known = {name: one for one in options for name in one.opts}
        left = iter(words)
        for word in left:
            if not word.startswith("-"):
                return
            server = next(left, "") if word in known else ""
            if _engine_of(server) is not None and not any(map(_engine_of, left)):
                takes = known[word].metavar or "VALUE"
                raise UsageError(
                    f"{word} took {server!r} as its {takes}",
                    hint=f"pasture run {word} {takes} {server} ...; {takes}: {known[word].help}",
                )


@click.command(
    "run",
    cls=_Command,
    headings={
        "policy": "Seal",
        "warm": "Before the fork",
        "max_uss": "Workers",
        "probe": "Probe",
        "after": "Programs in Python",
    },
    context_settings={"allow_interspersed_args": False},
    params=[
        *(_option(row) for row in SETTINGS.values() if row.option),
        click.Option(
            ["--image"],
            metavar="FILE",
            help="Start the server out of this image of pasture[image].",
        ),
    ],
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="SERVER ARGS")
def command(command: tuple[str, ...], image: str | None, **options: Any) -> None:
    """Run a pre-fork server with its heap sealed before each fork.

    SERVER ARGS is the server's own command, as in

        pasture run gunicorn mysite.wsgi -w 8

    The application is preloaded. Supported servers: gunicorn, uwsgi, celery,
    uvicorn, fastapi, hypercorn and granian with --workers; queues: rq, dramatiq,
    huey_consumer; and any program that starts one of them or forks with
    os.fork, as in

        pasture run -- python app.py
    """
    given = {name: raw for name, raw in options.items() if raw not in (None, ())}
    row = _row_of(command[0])
    if given.get("auto") == _UNNAMED:
        given["auto"] = _file_of(row, command)
    _check(given)
    for name, raw in given.items():
        if raw:
            SETTINGS[name].require(row)
    _check_lifespan(row, given.get("lifespan", "each"), reforks="refork" in given)
    environ = {**os.environ, **to_environment(**given), **_image(image)}
    # A bare `python` is the one that pasture is installed for.
    is_named = row.name == "python" and os.sep in command[0]
    python = starter(command[0] if is_named else sys.executable, environ)
    if image is not None and Path(python).name != STUB and not off.why(environ):
        raise MissingExtra(
            f"there is no {STUB} next to {python}", hint="pip install 'pasture[image]'"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(python, [python, "-m", row.module, *command[1:]], environ)


def _file_of(row: Row, command: tuple[str, ...]) -> Path | None:
    """The file in the user's cache for a command, an interpreter and an environment.

    None, after a message, if it cannot be kept. The files that were used last are kept.
    """
    variables = (
        f"{name}={value}"
        for name, value in os.environ.items()
        if name not in _SESSION and not name.startswith(_SESSION_PREFIXES)
    )
    what = "\0".join((str(Path.cwd()), sys.executable, sys.prefix, *command, *sorted(variables)))
    digest = hashlib.sha256(os.fsencode(what)).hexdigest()[:16]
    try:
        folder = user_cache.folder("learned")
        path = folder / f"{row.name}-{digest}.auto"
        with suppress(FileNotFoundError):
            os.utime(path)
        for old in sorted(folder.glob("*.auto"), key=lambda one: one.stat().st_mtime)[:-_MAX_FILES]:
            old.unlink(missing_ok=True)
        return path
    except (UsageError, OSError) as error:
        click.echo(f"pasture: auto: nothing is learned: {error}; or --auto=FILE", err=True)
        return None


def _image(image: str | None) -> dict[str, str]:
    """The variable that names an image to `pasture-python`."""
    if image is None:
        return {}
    if image != "auto" and not Path(image).is_file():
        raise UsageError(
            f"{image} is not a file", hint="pasture image build -o FILE makes an image"
        )
    return {VARIABLE: image if image == "auto" else str(Path(image).absolute())}


def _check(given: Mapping[str, Any]) -> None:
    """Read options as the server will: here an error is still one of the command line."""
    whole = {}
    for name, raw in given.items():
        check = SETTINGS[name].check
        if check is None:
            whole[name] = raw
            continue
        for each in raw if isinstance(raw, tuple) else (raw,):
            check(each)
    check_given(**whole)


def _check_lifespan(row: Row, lifespan: str, *, reforks: bool) -> None:
    """Refuse a lifespan that the engine does not know, or that its other options exclude."""
    if lifespan == "each":
        return
    is_once = lifespan == "once"
    if lifespan not in row.lifespans or (is_once and reforks):
        known = ", ".join(one.name for one in ENGINES.values() if lifespan in one.lifespans)
        raise UsageError(
            f"{row.name} does not support --lifespan {lifespan}",
            hint=f"known are {known}{', without --refork' if is_once else ''}",
        )


def _as_python_starts(program: str) -> str:
    """The command of a script that names its interpreter; else an example."""
    path = shutil.which(program)
    try:
        with open(path or "", "rb") as file:  # noqa: PTH123
            found = _SHEBANG.match(file.read(_MAX_SHEBANG_BYTES))
    except OSError:
        found = None
    if path is None or found is None:
        return "python app.py"
    named = os.fsdecode(found[1])
    own = Path(sys.executable).parent
    python = "python" if os.sep not in named or Path(named).parent == own else named
    return f"{printable(python)} {printable(path)} ..."


def _engine_of(program: str) -> Row | None:
    name = Path(program).name.removesuffix(".py")
    row = ENGINES.get("python" if is_python(name) else name)
    return row if row is not None and row.is_program else None


def _row_of(program: str) -> Row:
    """The engine of a program, if it can be started."""
    name, row = Path(program).name.removesuffix(".py"), _engine_of(program)
    if (server := one_process.PROGRAMS.get(name)) is not None:
        raise UsageError(one_process.sentence(server), hint=one_process.INSTEAD[server])
    if row is None:
        names = [one.name for one in ENGINES.values() if one.is_program]
        raise UsageError(
            f"{program!r} is not a server that pasture knows",
            hint=f"{guess(name, names)}known are {', '.join(names)}; a Python program, "
            f"which may start one of these by itself: pasture run -- {_as_python_starts(program)}; "
            f"in another process, as litestar: PASTURE=seal {printable(program)} ...",
        )
    is_there = row.on_path and shutil.which(row.name) is not None
    if row.package and not is_there and importlib.util.find_spec(row.package) is None:
        raise MissingExtra(
            f"{row.package} is not installed", hint=f"pip install '{row.installed_by}'"
        )
    return row
