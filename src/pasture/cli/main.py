"""Entry point of the `pasture` command: the group of commands and its errors.

A command lives in the module `pasture.cli.<name>` (an underscore follows a name that is a
keyword) under the attribute `command`. The module is imported when its command is called, so that
no command pays for what only another one needs, and the list of commands for none of them. Another
distribution adds a command of its own with an entry point of the group `pasture.commands`, which
names a `click.Command`.
"""

from __future__ import annotations

import difflib
import importlib
import keyword
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from pasture.errors import MissingExtra, PastureError
from pasture.trust.untrusted_text import complain, printable_lines

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

INTERRUPTED = 128 + 2  # as a shell reports SIGINT

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "try": "Run one load against APP under several policies and compare.",
        "size": "Say how many workers this container holds.",
        "policies": "List the policies and the steps that each takes.",
        "run": "Run a pre-fork server with its heap sealed before each fork.",
        "learn": "Record what workers build that their parent could have built.",
        "profile": "Work on profiles, the files of `pasture learn`.",
        "image": "Keep an interpreter with its modules in a file to start from.",
        "top": "Watch a server: shared and private memory, growth, faults.",
        "explain": "Say why each private page of a worker is private.",
        "doctor": "Find out what stands in the way of shared memory.",
        "metrics": "Serve the figures of a server to Prometheus.",
    }
)
"""The first line of each command's help, in the order in which a user meets the commands. Others of
entry points follow."""

HEADINGS: Mapping[str, str] = MappingProxyType(
    {"try": "Measure first", "run": "Run", "top": "Look at a running server"}
)
"""Of the commands in the help, by the first command below it."""

ENTRY_POINTS = "pasture.commands"
IN_EXTRAS = {"lab": "lab", "image": "image"}
"""Commands that an extra brings, as entry points, by name: the extra."""


class LazyGroup(click.Group):
    """The commands of the table and those of entry points, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        others = _entry_points().names
        known = [name for name in COMMANDS if name not in IN_EXTRAS or name in others]
        return known + sorted(others - set(COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and cmd_name not in IN_EXTRAS:
            module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
            command = importlib.import_module(f"pasture.cli.{module}").command
            assert isinstance(command, click.Command)
            return command
        for entry_point in _entry_points().select(name=cmd_name):
            return _load(entry_point)
        if cmd_name in IN_EXTRAS:
            raise MissingExtra(
                f"pasture {cmd_name} is a package of its own, which is not installed",
                hint=f"pip install 'pasture[{IN_EXTRAS[cmd_name]}]'",
            )
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's own, which suggests none of the commands that are not imported yet."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if near := _command_like(args[0], self.list_commands(ctx)):
                guess = f"{error.message} Did you mean '{near}'?"
                raise click.UsageError(guess, ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click's own, with the lines of the table, in groups."""
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names))
        sections: dict[str, list[tuple[str, str]]] = {}
        heading = "Commands"
        for name in names:
            known = COMMANDS.get(name)
            heading = HEADINGS.get(name, heading) if known else "Of other packages"
            command = click.Command(name, help=known) if known else self.get_command(ctx, name)
            if command is not None and not command.hidden:
                line = (name.ljust(max(map(len, names))), command.get_short_help_str(width))
                sections.setdefault(heading, []).append(line)
        for title, lines in sections.items():
            with formatter.section(title):
                formatter.write_dl(lines)


def _command_like(word: str, names: list[str]) -> str:
    """The command that a mistyped word may stand for; "" if it is like none."""
    from pasture.servers.engines import ENGINES

    row = ENGINES.get(word)
    if row is not None and row.is_program:
        return f"pasture run {word}"
    return next(iter(difflib.get_close_matches(word, names, n=1)), "")


EPILOG = """\
Start with `pasture try MODULE:APP`: it changes nothing. Then `pasture run` before the command of
your server.

Every command has --help. README.md and docs/ of pasture's sources say more: docs/reference.md
lists options, exit codes and reasons; docs/troubleshooting.md what to do.
"""


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pasture", message="pasture %(version)s")
def cli() -> None:
    """Keep the memory of forked Python workers shared, and prove the saving."""


def _entry_points() -> EntryPoints:
    from importlib import metadata  # a fifth of the time of `pasture --version`

    return metadata.entry_points(group=ENTRY_POINTS)


def _load(entry_point: EntryPoint) -> click.Command:
    """The command of an entry point; one that says so if it is broken, so that others work."""
    try:
        command = entry_point.load()
    except (Exception, SystemExit) as error:
        return _broken(entry_point, f"{type(error).__name__}: {error}")
    if not isinstance(command, click.Command):
        return _broken(entry_point, f"{entry_point.value} is no command of click")
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
    """Runs a command; returns the exit code. Only a defect of pasture itself raises."""
    try:
        result = cli.main(args=arguments, prog_name="pasture", standalone_mode=False)
    except PastureError as error:
        return complain(error)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    return result if isinstance(result, int) else 0


def main() -> None:
    sys.exit(run())
