"""What an experiment is: its setting, its published figures, its rules and its parts.

Nothing here runs anything. An experiment is made when its module is imported, before any run:
`description` reads its table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pasture_lab.engine.figures import Figures, Measured
from pasture_lab.engine.rule import Rule

Pause = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options.

    Attributes:
        quick: less of everything, for CI; the rules are the same.
        pythons: other interpreters for `webserver`, path by name; they run without pasture.
        wagtail: run `site` on a Wagtail site too, which is fetched for that.
        site: folder of the bundled site; None where there is none.
    """

    quick: bool = False
    pythons: Mapping[str, str] = field(default_factory=dict)
    wagtail: bool = False
    site: Path | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """The tools of a part.

    Attributes:
        directory: for files of this part alone; exists and is empty.
        logs: start of the log files' path.
        figures: of this experiment's parts so far, by full name.
        report: shows how much of the part is done, 0 to 1.
        pause: sleeps for so many seconds; raises to interrupt the run.
    """

    directory: Path
    logs: Path
    figures: Figures
    report: Callable[[float], None]
    pause: Pause

    def log(self, name: str) -> Path:
        """The log file of a program of this part."""
        return Path(f"{self.logs}.{name}.log")


@dataclass(frozen=True, slots=True)
class Part:
    """One run of an experiment, kept on disk once it is finished.

    Attributes:
        name: starts the names of its figures.
        seconds: estimate on two cores, shown before the start.
        measure: does it.
        key: what was asked of it; a kept result of another key does not count.

    `measure` raises a `PastureError` for whatever stands in the way; NotMeasurable where
    this machine is the reason.
    """

    name: str
    seconds: float
    measure: Callable[[Bench], Measured]
    key: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published figure, or where today's policies stand beside it.

    Attributes:
        what: was measured.
        published: the figure as published; "" for a row of ours.
        shows: the measured figures, with their names in braces.
        rule: decides; None for a row of ours, or if `never` says why nothing can.
        without: why, where the figures are missing although the runs came to their end.
        never: why no machine of this kind can measure it.
        decides: whether it counts for the experiment's verdict. Rows about what a change
            cost, or that follow from another row, do not.
    """

    what: str
    published: str = ""
    shows: str = ""
    rule: Rule | None = None
    without: str = ""
    never: str = ""
    decides: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One plot of the report.

    Attributes:
        key: of the curves, without the part's name; of bars, the figure or names.
        kind: "lines" draws the parts' curves, "bars" one figure of each part, "names" the
            words and shares of each part.
        parts: which, in this order; () for all that have it.
        y_title: what one unit is; values in bytes are drawn as MB.
    """

    key: str
    title: str
    caption: str
    kind: Literal["lines", "bars", "names"] = "lines"
    parts: tuple[str, ...] = ()
    x_title: str = ""
    y_title: str = ""


def _nothing(figures: Figures) -> Figures:
    return {}


def _no_rows(options: Options) -> tuple[Row, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One published experiment.

    Attributes:
        name: on the command line.
        title: what it is about.
        source: who published it and when.
        setting: how it was done then.
        differences: how it is done here, one sentence each.
        rows: published figures and ours.
        more_rows: that there are under some options only.
        parts: its runs under some options, in order.
        derive: figures that follow from those of several parts.
        needs: modules that have to be installed.
    """

    name: str
    title: str
    source: str
    setting: str
    differences: tuple[str, ...]
    rows: tuple[Row, ...]
    parts: Callable[[Options], tuple[Part, ...]]
    plots: tuple[Plot, ...] = ()
    more_rows: Callable[[Options], tuple[Row, ...]] = _no_rows
    derive: Callable[[Figures], Figures] = _nothing
    needs: tuple[str, ...] = ()
