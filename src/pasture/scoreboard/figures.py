"""The figures of a scoreboard, a row each: name, form in memory, and metric.

A figure is declared only here. Words, readers, sums and the exporter follow from the rows, and so
does the number by which a reader checks a scoreboard's layout. To add one: a row here, and
`recorder.count` where it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

WORD_BYTES = 8
GENERATIONS = 3
PAUSE_BOUNDS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
"""Upper bounds of the pause histogram's buckets; the last bucket has no bound."""

PROBES = ("", "passed", "failed")
"""Outcomes of a probe, by their number in memory; the first stands for no probe."""

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a value in memory."""

    words: int  # number of words that it takes
    # Takes any words, since other users may have written them; returns the value.
    read: Callable[[Sequence[int]], Any]
    write: Callable[[Any], Sequence[int]]  # takes the value; returns the words


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure as the exporter shows it."""

    name: str  # without the prefix
    help: str  # one line
    label: str = ""  # label of the numbers of a figure with several; "" for a single one


def _text(words: int) -> Form:
    return Form(words, _printable_of, lambda text: _words_of(text, words))


def _words_of(text: str, count: int) -> list[int]:
    data = text.encode("ascii", "replace")[: count * WORD_BYTES].ljust(count * WORD_BYTES, b"\0")
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]


def _printable_of(words: Sequence[int]) -> str:
    data = b"".join(word.to_bytes(WORD_BYTES, "little") for word in words)
    return "".join(chr(byte) for byte in data.partition(b"\0")[0] if 0x20 <= byte < 0x7F)


_NUMBER = Form(1, lambda words: words[0], lambda value: (value,))
_FLAG = Form(1, lambda words: bool(words[0]), lambda value: (bool(value),))
_SECONDS = Form(1, lambda words: words[0] / 1e9, lambda value: (int(value * 1e9),))
_PROBE = Form(
    1,
    lambda words: PROBES[words[0]] if words[0] < len(PROBES) else "",
    lambda value: (PROBES.index(value),),
)


def row(default: Any, form: Form = _NUMBER, metric: Metric | None = None) -> Any:
    """The field of a figure."""
    return field(default=default, metadata={"form": form, "metric": metric})


def _counts(count: int, metric: Metric | None = None) -> Any:
    return row((0,) * count, Form(count, tuple, tuple), metric)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one process, or of several together."""

    starts: int = row(0, metric=Metric("worker_starts", "Workers that began"))
    recycles: int = row(
        0, metric=Metric("recycles", "Workers that were replaced for their private memory")
    )
    requests: int = row(0)  # number of responses sent, by servers that count them
    collections: tuple[int, ...] = _counts(
        GENERATIONS, Metric("collections", "Garbage collections in workers", "generation")
    )
    # Number of objects found dead, by generation.
    collected: tuple[int, ...] = _counts(
        GENERATIONS, Metric("collected_objects", "Objects found dead in workers", "generation")
    )
    # Number of collections by bucket, not cumulated, the last one without a bound. With `pause_ns`
    # they make one histogram.
    pauses: tuple[int, ...] = _counts(len(PAUSE_BOUNDS_S) + 1)
    pause_ns: int = row(0)  # time that all collections took


@dataclass(frozen=True, slots=True)
class SealFigures:
    """The latest seal of the process that loaded the application."""

    policy: str = row("", _text(6))
    python: str = row("", _text(4))
    sealed: bool = row(False, _FLAG, Metric("seal_sealed", "Whether the master is sealed"))
    round: int = row(0, metric=Metric("seal_round", "How many times it was sealed"))
    objects: int = row(0, metric=Metric("seal_objects", "Objects made immortal by the latest seal"))
    plugged_bytes: int = row(
        0, metric=Metric("seal_plugged_bytes", "Free memory taken out of use by the latest seal")
    )
    seconds: float = row(0.0, _SECONDS, Metric("seal_seconds", "Time that the latest seal took"))
    hazards: int = row(0, metric=Metric("seal_hazards", "Things found that do not survive a fork"))
    probe: str = row("", _PROBE)  # one of `PROBES`, "" without one
    why: str = row("", _text(3))  # code of the reason if it is not sealed; else ""
    serves: str = row("", _text(1))  # "asgi", "web", or "" if unknown
    dead_bytes: int = row(
        0, metric=Metric("seal_dead_bytes", "Sealed memory that was not used at the latest seal")
    )


class Table(Generic[Record]):
    """The places of a dataclass's figures, in their order, from `begin` on.

    Attributes:
        at: dict of name to the position of its first word.
        end: position after its last word.
    """

    def __init__(self, record: type[Record], begin: int) -> None:
        self.begin = self.end = begin
        self.at: dict[str, int] = {}
        self._record = record
        self._forms: dict[str, Form] = {}
        self._types: dict[str, object] = {}
        for one in fields(record):  # type: ignore[arg-type]
            form: Form = one.metadata["form"]
            self.at[one.name], self._forms[one.name] = self.end, form
            self._types[one.name] = one.type
            self.end += form.words

    def read(self, words: Sequence[int], at: int = 0) -> Record:
        """The figures in words, of which the row begins `at` that position."""
        read = {}
        for name, form in self._forms.items():
            first = at + self.at[name]
            read[name] = form.read(words[first : first + form.words])
        return self._record(**read)

    def write(self, words: memoryview, name: str, value: Any) -> None:
        """Write one figure into the row that these words begin with."""
        for position, word in enumerate(self._forms[name].write(value), self.at[name]):
            words[position] = word

    def __repr__(self) -> str:
        """The layout, for the digest."""
        return f"{self.at} {self.end} {self._types}"


def metrics(record: type[Any]) -> dict[str, Metric]:
    """The figures of a dataclass that the exporter shows, by the field's name."""
    return {one.name: one.metadata["metric"] for one in fields(record) if one.metadata["metric"]}
