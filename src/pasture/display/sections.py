"""Help texts in the order of use: options in groups, commands as they are declared.

click lists all options of a command under one heading, and commands by the alphabet. Here a command
names the headings; a new option stands in the group of its neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


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
