"""What is going on while the lab runs: bars on a terminal, lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from pasture.lab import events
from pasture.lab.events import Event
from pasture.report.lab_table import duration
from pasture.report.units import count, seconds


class LabProgress(Protocol):
    """A display that is open in a `with` block and told each event."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def tell(self, event: Event) -> None:
        """Show an event."""


def for_console(console: Console) -> LabProgress:
    """Bars if the console is a terminal, else lines."""
    return Bars(console) if console.is_terminal else Lines(console)


class Bars:
    """One bar for the whole, in estimated seconds, and one for the part under way."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description:<26}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[phase]}"),
            console=console,
        )
        self._whole: TaskID | None = None
        self._part: TaskID | None = None
        self._estimate_s = 0.0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def tell(self, event: Event) -> None:
        """Show an event."""
        match event:
            case events.Planned():
                self._bars.console.print(planned(event))
                total = event.seconds or None
                self._whole = self._bars.add_task("the lab", total=total, phase="")
            case events.PartStarted():
                self._estimate_s = event.seconds
                self._part = self._bars.add_task(
                    f"{event.experiment} {event.part}",
                    total=1.0,
                    phase=f"{event.number} of {event.total}",
                )
            case events.PartMoved() if self._part is not None:
                self._bars.update(self._part, completed=event.done)
            case events.PartFinished() if not event.kept and self._part is not None:
                self._finish(event, self._part)
            case _:
                pass

    def _finish(self, event: events.PartFinished, part: TaskID) -> None:
        self._bars.remove_task(part)
        self._part = None
        self._bars.console.print(finished(event), highlight=False, markup=False)
        if self._whole is not None:
            self._bars.advance(self._whole, self._estimate_s)


class Lines:
    """One line a part, for logs and pipes."""

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

    def tell(self, event: Event) -> None:
        """Show an event."""
        match event:
            case events.Planned():
                self._say(planned(event))
            case events.PartFinished():
                self._say(finished(event))
            case _:
                pass

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


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
