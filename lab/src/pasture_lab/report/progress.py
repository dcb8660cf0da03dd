"""What is going on while the lab runs: bars on a terminal, lines elsewhere."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn

from pasture.display.bars import BarDisplay, Display, LineDisplay, open_display
from pasture.display.units import count, seconds
from pasture_lab.engine import events
from pasture_lab.engine.events import Event
from pasture_lab.report.table import duration


def for_console(console: Console) -> AbstractContextManager[Display[Event]]:
    """Bars if the console is a terminal, else lines."""
    return open_display(console, Bars, Lines)


class Bars(BarDisplay[Event]):
    """One bar for the whole, in estimated seconds, and one for the part under way."""

    def __init__(self, console: Console) -> None:
        self._whole: TaskID | None = None
        self._part: TaskID | None = None
        self._estimate_s = 0.0
        super().__init__(
            console,
            TextColumn("{task.description:<26}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[phase]}", markup=False),
        )

    def tell(self, event: Event) -> None:
        """Show an event."""
        match event:
            case events.Planned():
                self.bars.console.print(planned(event))
                total = event.seconds or None
                self._whole = self.bars.add_task("the lab", total=total, phase="")
            case events.PartStarted():
                self._estimate_s = event.seconds
                self._part = self.bars.add_task(
                    f"{event.experiment} {event.part}",
                    total=1.0,
                    phase=f"{event.number} of {event.total}",
                )
            case events.PartMoved() if self._part is not None:
                self.bars.update(self._part, completed=event.done)
            case events.PartFinished() if not event.kept and self._part is not None:
                self._finish(event, self._part)
            case _:
                pass

    def _finish(self, event: events.PartFinished, part: TaskID) -> None:
        self.bars.remove_task(part)
        self._part = None
        self.bars.console.print(finished(event), highlight=False, markup=False)
        if self._whole is not None:
            self.bars.advance(self._whole, self._estimate_s)


class Lines(LineDisplay):
    """One line a part."""

    def tell(self, event: Event) -> None:
        """Show an event."""
        match event:
            case events.Planned():
                self.say(planned(event))
            case events.PartFinished():
                self.say(finished(event))
            case _:
                pass


def planned(event: events.Planned) -> str:
    """What lies ahead."""
    kept = f", {event.kept} of them kept from before" if event.kept else ""
    left = duration(event.seconds) if event.kept < event.parts else "nothing to run"
    return f"{count(event.parts, 'run')}{kept}: about {left}"


def finished(event: events.PartFinished) -> str:
    """What came of a part."""
    if event.kept:
        return f"{event.experiment} {event.part}: kept"
    said = f": not measured: {event.gap}" if event.gap else ""
    return f"{event.experiment} {event.part}: {seconds(event.seconds)}{said}"
