"""Progress of a long command: three events, and their display.

A piece of work is started, moves on and is finished; pieces may be nested, and the innermost one
moves. On a terminal each is a bar, elsewhere its steps are lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Started:
    """A piece of work begins."""

    label: str  # names it
    # Amount of work: a whole number is shown as a count, a fraction as a share; None without a
    # count.
    total: float | None
    text: str = ""  # a remark, or ""


@dataclass(frozen=True, slots=True)
class Moved:
    """The innermost piece of work moves on."""

    # Part of the total; None if it did not change. A step without a count is a line of its own
    # without bars.
    done: float | None = None
    phase: str = ""  # what it does now; "" keeps the last words


@dataclass(frozen=True, slots=True)
class Finished:
    """A piece of work has ended; one that was never started was done before."""

    label: str
    text: str = ""  # the outcome, or ""


Event = Started | Moved | Finished
OnEvent = Callable[[Event], None]


class Display(Protocol):
    """Shows events as they come."""

    def show(self, event: Event) -> None:
        """Show an event."""


@contextmanager
def for_console(console: Console) -> Iterator[Display]:
    """Bars if the console is a terminal, else lines."""
    if console.is_terminal:
        display = _Bars(console)
        with display.bars:
            yield display
    else:
        yield _Lines(console)


class _Bars:
    """A bar for each piece of work under way; its result stays as a line above them."""

    def __init__(self, console: Console) -> None:
        self._open: list[tuple[str, TaskID]] = []
        one_line = Column(no_wrap=True)
        self.bars = Progress(
            TextColumn("{task.description:<11}", markup=False, table_column=one_line),
            BarColumn(bar_width=16, table_column=one_line.copy()),
            _Done(table_column=one_line.copy()),
            TimeElapsedColumn(table_column=one_line.copy()),
            TextColumn("{task.fields[phase]}", markup=False, table_column=Column()),
            console=console,
        )

    def show(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Started(label, total, text):
                self._open.append((label, self.bars.add_task(label, total=total, phase=text)))
            case Moved(done, phase) if self._open:
                task = self._open[-1][1]
                self.bars.update(task, completed=done)
                if phase:
                    self.bars.update(task, phase=phase)
            case Finished(label, text):
                if self._open and self._open[-1][0] == label:
                    self.bars.remove_task(self._open.pop()[1])
                if text:
                    _say(self.bars.console, f"{label}: {text}")


class _Lines:
    """A line for each step, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: list[str] = []

    def show(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Started(label, _, text):
                self._open.append(label)
            case Moved(None, text) if self._open:
                label = self._open[-1]
            case Finished(label, text):
                if self._open and self._open[-1] == label:
                    self._open.pop()
            case _:
                return
        if text:
            _say(self._console, f"{label}: {text}")


class _Done(ProgressColumn):
    """A count as `40/100`, a share as `40%`."""

    def render(self, task: Task) -> Text:
        """Render the count of one bar."""
        if task.total is None:
            return Text("")
        if isinstance(task.total, int):
            return Text(f"{task.completed:.0f}/{task.total}")
        return Text(f"{task.percentage:>3.0f}%")


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
