"""Entry point of the `pasture` command: the group of commands and its errors.

A command lives in the module `pasture.cli.<name>` (an underscore follows a name that is a
keyword) under the attribute `command`. The module is imported when its command is called,
so that no command pays for what only another one needs. Modules that begin with an
underscore are no commands. Another distribution adds a command of its own with an entry point
of the group `pasture.commands`, which names a `click.Command`.
"""

import importlib
import pkgutil
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

import click

import pasture.cli
from pasture.errors import MissingExtra, PastureError
from pasture.servers.complaint import complain
from pasture.trust.untrusted_text import printable_lines

INTERRUPTED = 128 + 2  # as a shell reports SIGINT

ORDER = ("try", "run", "zygote", "top", "explain", "doctor", "metrics", "policies")
"""In which a user meets the commands; others follow, those of entry points last."""

ENTRY_POINTS = "pasture.commands"
IN_EXTRAS = {"lab": "lab"}
"""Commands that an extra brings, by name: the extra."""


class LazyGroup(click.Group):
    """The commands found as modules of `pasture.cli` and as entry points, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        own = sorted(
            _modules(), key=lambda name: (ORDER.index(name) if name in ORDER else 99, name)
        )
        return own + sorted(entry_points(group=ENTRY_POINTS).names - set(own))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _modules().get(cmd_name)
        if module is not None:
            command = importlib.import_module(f"pasture.cli.{module}").command
            assert isinstance(command, click.Command)
            return command
        for entry_point in entry_points(group=ENTRY_POINTS, name=cmd_name):
            return _load(entry_point)
        if cmd_name in IN_EXTRAS:
            raise MissingExtra(
                f"pasture {cmd_name} is a package of its own, which is not installed",
                hint=f"pip install 'pasture[{IN_EXTRAS[cmd_name]}]'",
            )
        return None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pasture", message="pasture %(version)s")
def cli() -> None:
    """Keep the memory of forked Python workers shared, and prove the saving."""


def _modules() -> dict[str, str]:
    """The modules of the commands, by the command's name."""
    found = (module.name for module in pkgutil.iter_modules(pasture.cli.__path__))
    return {n.rstrip("_"): n for n in found if n != "main" and not n.startswith("_")}


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
