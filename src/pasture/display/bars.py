"""A display of what is going on: open in a `with` block, told event after event.

What the events are, and what is shown of them, is `progress`' and `lab_progress`'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from rich.console import Console
from rich.progress import Progress, ProgressColumn

Event = TypeVar("Event", contravariant=True)


class Display(Protocol[Event]):
    """What takes events."""

    def tell(self, event: Event) -> None:
        """Show an event."""


class BarDisplay(ABC, Generic[Event]):
    """Bars that move while they are open."""

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        self.bars = Progress(*columns, console=console)

    @abstractmethod
    def tell(self, event: Event) -> None:
        """Show an event."""


class LineDisplay:
    """Lines, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Print a line as it is."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def open_display(
    console: Console,
    bars: Callable[[Console], BarDisplay[Event]],
    lines: Callable[[Console], Display[Event]],
) -> Iterator[Display[Event]]:
    """Bars if the console is a terminal, else lines."""
    if console.is_terminal:
        display = bars(console)
        with display.bars:
            yield display
    else:
        yield lines(console)
