"""The terminal, file or pipe that tables and bars are printed on.

All text is made safe to show: markup is not interpreted, and control characters are written out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from pasture.trust.untrusted_text import printable
from pasture_tools.display.atomic import STANDARD_OUTPUT

_FILE_WIDTH = 400


class Terminal(Console):
    """A console for untrusted text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As a console's; each segment's text is printable, except line ends."""
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable():
                yield segment
            else:
                lines = "\n".join(printable(line, len(line)) for line in text.split("\n"))
                yield Segment(lines, segment.style)

    def on_broken_pipe(self) -> None:
        """Pass the error on to `pasture_tools.cli.main`, which ends the command."""
        raise


def output_terminal(json_file: Path | None = None) -> Terminal:
    """Standard output; lines are not folded in a file or pipe. Silent if JSON is printed there."""
    terminal = Terminal(quiet=json_file == STANDARD_OUTPUT)
    if not terminal.is_terminal:
        terminal.width = max(terminal.width, _FILE_WIDTH)
    return terminal


def error_terminal() -> Terminal:
    """Standard error."""
    return Terminal(stderr=True)
