"""Help texts in the order of use: options in groups, commands as they are declared.

click lists all options of a command under one heading, and commands by the alphabet. Here a command
names the headings; a new option belongs to the group of its neighbour.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import click

from pasture.errors import UsageError


class SectionedCommand(click.Command):
    """A command whose help has a heading above some options.

    Attributes:
        headings: of options, by the name of the first one below it.
    """

    def __init__(self, *arguments: Any, headings: Mapping[str, str], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.headings = headings

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        heading = "Options"
        for param in self.get_params(ctx):
            if param is self.get_help_option(ctx):
                heading = "Help"
            heading = self.headings.get(param.name or "", heading)
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(heading, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class OrderedGroup(click.Group):
    """A group whose help lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's own; the error for an unknown word names a similar command."""
        if args[0].startswith("-") or self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        near = self.meant_by(ctx, args[0])
        raise UsageError(
            f"there is no command '{args[0]}'",
            hint=f"did you mean {ctx.command_path} {near}?"
            if near
            else f"{ctx.command_path} --help lists the commands",
        )

    def meant_by(self, ctx: click.Context, word: str) -> str:
        """The command most similar to a mistyped word, or ""."""
        return next(iter(difflib.get_close_matches(word, self.list_commands(ctx), n=1)), "")
