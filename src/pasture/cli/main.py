"""Entry point of the `pasture` command: the group of commands and its errors.

A command lives in the module `pasture.cli.<name>` (an underscore follows a name that is a
keyword) under the attribute `command`. The module is imported when its command is called,
so that no command pays for what only another one needs. Modules that begin with an
underscore are no commands.
"""

import importlib
import keyword
import pkgutil
import sys
from collections.abc import Sequence

import click

import pasture.cli
from pasture.errors import PastureError
from pasture.servers.complaint import complain

INTERRUPTED = 128 + 2  # as a shell reports SIGINT


class LazyGroup(click.Group):
    """The commands found as modules of `pasture.cli`, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        modules = pkgutil.iter_modules(pasture.cli.__path__)
        return sorted(
            module.name.rstrip("_")
            for module in modules
            if module.name != "main" and not module.name.startswith("_")
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command = importlib.import_module(f"pasture.cli.{name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pasture", message="pasture %(version)s")
def cli() -> None:
    """Keep the memory of forked Python workers shared, and prove the saving."""


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
