"""What is going on while a trial runs: bars on a terminal, lines elsewhere.

Both take the events of a trial; the caller picks with `for_console`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column

from pasture.display.bars import BarDisplay, Display, LineDisplay, open_display
from pasture.display.units import count, megabytes, seconds
from pasture.trial import events
from pasture.trial.events import Event


def for_console(console: Console) -> AbstractContextManager[Display[Event]]:
    """Bars if the console is a terminal, else lines."""
    return open_display(console, Bars, Lines)


class Bars(BarDisplay[Event]):
    """One bar a run, with what it is doing and the private memory of its workers."""

    def __init__(self, console: Console) -> None:
        self._task: TaskID | None = None
        super().__init__(
            console,
            TextColumn("{task.description:<11}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=16, table_column=Column(no_wrap=True)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[phase]}", markup=False, table_column=Column()),
        )

    def tell(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, events.RunStarted):
            self._task = self.bars.add_task(event.policy, total=event.requests, phase="booting")
        elif isinstance(event, events.Confirming):
            self._task = self.bars.add_task(event.policy, total=None, phase=_phase(event))
        elif self._task is not None:
            done = event.requests if isinstance(event, events.LoadMoved) else None
            self.bars.update(self._task, completed=done, phase=_phase(event))
            if isinstance(event, events.RunFinished):
                self.bars.stop_task(self._task)


class Lines(LineDisplay):
    """One line for each step of a run."""

    def tell(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, events.RunStarted):
            text = f"{event.policy}: run {event.number} of {event.total}"
        elif isinstance(event, events.LoadMoved):
            return
        else:
            policy = event.run.policy if isinstance(event, events.RunFinished) else event.policy
            text = f"{policy}: {_phase(event)}"
        self.say(text)


def _phase(event: Event) -> str:
    """What a run does after an event."""
    match event:
        case events.Booted():
            return f"starting the load, answers after {seconds(event.seconds)}"
        case events.LoadMoved():
            return f"{megabytes(event.private_bytes_median)} private a worker"
        case events.Stopping():
            return "stopping"
        case events.RunFinished(run):
            return f"{megabytes(run.private_bytes_median)} private a worker"
        case events.Confirming():
            return f"answers of {count(event.urls, 'URL')} differ"
        case _:
            return "booting"
