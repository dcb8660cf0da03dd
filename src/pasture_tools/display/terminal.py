"""The terminal, or the file or pipe in its place: tables and bars are printed on it.

All text is made safe to show, wherever it comes from: no markup is read in it, and control
characters are written out before they reach the terminal.
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
        """As a console does; each segment's text is printable, except for line ends."""
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable():
                yield segment
            else:
                lines = "\n".join(printable(line, len(line)) for line in text.split("\n"))
                yield Segment(lines, segment.style)

    def on_broken_pipe(self) -> None:
        """Leave it to `pasture_tools.cli.main`, which knows how a command ends then."""
        raise


def output_terminal(json_file: Path | None = None) -> Terminal:
    """Standard output; in a file or pipe no line is folded. Silent where JSON is printed there."""
    terminal = Terminal(quiet=json_file == STANDARD_OUTPUT)
    if not terminal.is_terminal:
        terminal.width = max(terminal.width, _FILE_WIDTH)
    return terminal


def error_terminal() -> Terminal:
    """Standard error."""
    return Terminal(stderr=True)
