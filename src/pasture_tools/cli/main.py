"""Entry point of the `pasture` command: the group of commands and its errors.

A command lives in the module `pasture_tools.cli.<name>` (an underscore follows a name that is a
keyword) under the attribute `command`. The module is imported when its command is called, so that a
command does not pay for imports of another one, and the list of commands for none. Another
distribution adds a command of its own with an entry point of the group `pasture.commands`, which
names a `click.Command`.
"""

from __future__ import annotations

import errno
import importlib
import keyword
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from pasture.errors import DOCS_URL, MissingExtra, PastureError, UsageError, guess, refused, see
from pasture.trust.untrusted_text import complain, printable_lines
from pasture_tools.display.sections import OrderedGroup

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_NOT_TAKEN = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "try": "Run one load against APP under several policies and compare.",
        "size": "Say how many workers this container holds.",
        "run": "Run a pre-fork server with its heap sealed before each fork.",
        "image": "Keep an interpreter with its modules in a file to start from.",
        "top": "Watch a server: shared and private memory, growth, faults.",
        "explain": "Say why each private page of a worker is private.",
        "doctor": "Find the obstacles to shared memory.",
        "metrics": "Serve the figures of a server to Prometheus.",
    }
)
"""The first line of each command's help, in the order in which a user meets the commands. Commands
of entry points follow.
"""

HEADINGS: Mapping[str, str] = MappingProxyType(
    {"try": "Measure first", "run": "Run", "top": "Look at a running server"}
)
"""Headings of commands in the help, by the first command below each."""

ENTRY_POINTS = "pasture.commands"
IN_EXTRAS = {"lab": "lab", "image": "image"}
"""Commands that an extra brings, as entry points, by name: the extra."""


class LazyGroup(OrderedGroup):
    """The commands of the table and those of entry points, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        others = _entry_points().names
        known = [name for name in COMMANDS if name not in IN_EXTRAS or name in others]
        return known + sorted(others - set(COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and cmd_name not in IN_EXTRAS:
            module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
            command = importlib.import_module(f"pasture_tools.cli.{module}").command
            assert isinstance(command, click.Command)
            return _with_page(cmd_name, command)
        for entry_point in _entry_points().select(name=cmd_name):
            return _with_page(cmd_name, _load(entry_point))
        if cmd_name in IN_EXTRAS:
            raise MissingExtra(
                f"pasture {cmd_name} is a separate package, which is not installed",
                hint=f"pip install 'pasture[{IN_EXTRAS[cmd_name]}]'",
            )
        return None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's own; `help COMMAND` is `COMMAND --help`."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def meant_by(self, ctx: click.Context, word: str) -> str:
        from pasture.servers.engines import ENGINES

        row = ENGINES.get(word)
        if row is not None and row.is_program:
            return f"run {word}"
        return super().meant_by(ctx, word)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click's own, with the lines of the table, in groups."""
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names))
        sections: dict[str, list[tuple[str, str]]] = {}
        heading = "Commands"
        for name in names:
            known = COMMANDS.get(name)
            heading = HEADINGS.get(name, heading) if known else "From other packages"
            command = click.Command(name, help=known) if known else self.get_command(ctx, name)
            if command is not None and not command.hidden:
                line = (name.ljust(max(map(len, names))), command.get_short_help_str(width))
                sections.setdefault(heading, []).append(line)
        for title, lines in sections.items():
            with formatter.section(title):
                formatter.write_dl(lines)


EPILOG = """\
Start with `pasture try MODULE:APP`: it changes nothing. Then `pasture run` before the command of
your server.

`pasture COMMAND --help` says what a command does and takes.
""" + (f"\n{DOCS_URL}\n" if DOCS_URL else "")
_PAGES = {"top": "diagnose", "doctor": "diagnose", "size": "operate", "metrics": "operate"}
_PAGES |= {"run": "start"}
"""Pages of the documentation, by command; other pages are named after their command."""


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    None, "-V", "--version", package_name="pasture", message="pasture %(version)s"
)
def cli() -> None:
    """Keep the memory of forked Python workers shared, and prove the saving."""


def _with_page(name: str, command: click.Command) -> click.Command:
    """A command whose help ends with the address of its page, if it has one."""
    page = see(_PAGES.get(name, name)).strip(" ()") if name in COMMANDS else ""
    if page and page not in (command.epilog or ""):
        command.epilog = "\n\n".join(filter(None, (command.epilog, page)))
    return command


def _entry_points() -> EntryPoints:
    from importlib import metadata  # a fifth of the time of `pasture --version`

    return metadata.entry_points(group=ENTRY_POINTS)


def _load(entry_point: EntryPoint) -> click.Command:
    """The command of an entry point; a broken one becomes a command that reports the error."""
    try:
        command = entry_point.load()
    except (Exception, SystemExit) as error:
        return _broken(entry_point, f"{type(error).__name__}: {error}")
    if not isinstance(command, click.Command):
        return _broken(entry_point, f"{entry_point.value} is not a click command")
    return command


def _broken(entry_point: EntryPoint, why: str) -> click.Command:
    package = entry_point.dist.name if entry_point.dist is not None else entry_point.module

    def fail(arguments: tuple[str, ...]) -> None:
        raise PastureError(
            f"pasture {entry_point.name} cannot be loaded: {why}",
            hint=f"the package {package} brings it: install it again",
        )

    return click.Command(
        entry_point.name,
        callback=fail,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        short_help=f"(broken: {printable_lines(why).splitlines()[0]})",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. Only a defect of pasture itself raises."""
    try:
        _open_streams()
        result = cli.main(args=arguments, prog_name="pasture", standalone_mode=False)
        sys.stdout.flush()
    except PastureError as error:
        return complain(error)
    except click.ClickException as error:
        if (
            type(error).__name__ == "NoArgsIsHelpError"
        ):  # click 8.2 and later; its message is the help
            error.show()
            return error.exit_code
        return complain(_as_ours(error))
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except (MemoryError, OSError, RuntimeError) as error:
        words = refused(error)
        return complain(words) if words is not None else _not_taken(error)
    return result if isinstance(result, int) else 0


def _open_streams() -> None:
    """Open /dev/null for streams that the caller closed.

    Else the first file that is opened takes their number, and receives the output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123


def _as_ours(error: click.ClickException) -> UsageError:
    """A click error in pasture's form: click puts the usage before the message and ends it with a
    full stop.
    """
    named = getattr(error, "option_name", "")
    is_unknown = isinstance(error, click.NoSuchOption)
    message = (
        f"there is no option {named}" if is_unknown else " ".join(error.format_message().split())
    )
    message = re.sub(r"for '\[(\w+)\]':", r"for \1:", message, count=1)  # may be left out
    kind = getattr(getattr(error, "param", None), "type", None)
    choice = re.match("'([^']*)' is not", str(error)) if isinstance(kind, click.Choice) else None
    meant = guess(choice[1], map(str, kind.choices)) if choice and kind else ""
    meant += guess(named, getattr(error, "possibilities", None) or ())
    context = getattr(error, "ctx", None)  # the parser's errors have none
    of = context.command_path if context is not None else "the same command with"
    return UsageError(
        message[:1].lower() + message[1:].removesuffix("."),
        hint=meant.strip() or f"{of} --help says what it takes",
    )


def _not_taken(error: Exception) -> int:
    """Exit after a failed input or output; raises other errors."""
    if not isinstance(error, OSError):
        raise error
    if error.errno not in _NOT_TAKEN:
        if error.filename is None:
            raise error
        return complain(
            PastureError(f"cannot use {error.filename}: {os.strerror(error.errno or 0)}")
        )
    with suppress(OSError):
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)  # else the interpreter tries once more at its end
        os.close(sink)
    if error.errno == errno.EPIPE:  # as click does at once: the reader has seen enough
        return 1
    what, hint = "write", "make room there, or send the output to another place"
    if error.errno == errno.EIO:  # also for a file that is read
        what, hint = "read or write", "a disk or a terminal fails: the kernel's log may say why"
    where = f" {error.filename}" if error.filename else ""
    return complain(UsageError(f"cannot {what}{where}: {os.strerror(error.errno)}", hint=hint))


def main() -> None:
    sys.exit(run())
