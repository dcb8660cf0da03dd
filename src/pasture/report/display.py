"""A display of what is going on: opened in a `with` block, told event after event.

What the events are, and what is shown of them, is `progress`' and `lab_progress`'.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self, TypeVar

from rich.console import Console
from rich.progress import Progress, ProgressColumn

Event = TypeVar("Event", contravariant=True)


class Display(Protocol[Event]):
    """What takes events."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def tell(self, event: Event) -> None:
        """Show an event."""


class BarDisplay:
    """Bars that move while it is open."""

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        self.bars = Progress(*columns, console=console)

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bars.stop()


class LineDisplay:
    """Lines, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def say(self, text: str) -> None:
        """Print a line as it is."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
