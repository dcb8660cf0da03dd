"""The tables of `pasture explain`, for a terminal or a log.

Owns columns and order; figures come from `explain`, sentences from `advice`.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.display.units import count, megabytes, percent, seconds
from pasture_tools.explain.advice import advice
from pasture_tools.explain.explanation import Explanation, Holder, Owner
from pasture_tools.explain.tally import Share
from pasture_tools.explain.writers import Recording

_MAX_ROWS = 12
_MAX_PATH_CHARACTERS = 90
_CONTAINERS = {"numpy.ndarray": "a numpy array", "list": "a list", "dict": "a dict"}


def print_explanation(found: Explanation, console: Console) -> None:
    """Print headline, tables, advice, and what is missing."""
    console.print(Text(headline(found), style="bold"))
    circumstances = (
        f"compared with {found.origin}: {found.os_pages:,} private pages, "
        f"{megabytes(found.explained_bytes)} explained in {seconds(found.seconds)}; "
        "no process was stopped"
    )
    console.print(Text(circumstances, style="dim"))
    console.print()
    console.print(_causes(found))
    console.print(_fields(found))
    for holder in found.holders[:_MAX_ROWS]:
        console.print(Text(held(holder)))
    if found.holders:
        console.print()
    if found.owners:
        console.print(_owners("objects", found.owners))
    if found.codes:
        console.print(_owners("code", found.codes))
    if found.recording is not None:
        recording = found.recording
        lost = f", {recording.lost:,} lost" if recording.lost else ""
        faults = f"{recording.faults:,} faults in {count(len(recording.pids), 'worker')}{lost}"
        console.print(Text(f"recorded {seconds(recording.seconds)}: {faults}", style="bold"))
        console.print(_writers(found.recording))
    for sentence in advice(found):
        console.print(Text(f"- {sentence}."))
    for sentence in found.missing:
        console.print(Text(f"note: {sentence}", style="yellow"))


def headline(found: Explanation) -> str:
    """One sentence: how much there is and what most of it is."""
    if not found.causes:
        return f"{found.subject} has no private memory"
    cause, share = found.causes[0]
    leak = "" if found.growth is None else f"; it {found.growth}"
    return (
        f"{found.subject} has {megabytes(found.private_bytes)} of private memory, "
        f"{percent(share.bytes / max(1, found.explained_bytes))} of it {cause.label}{leak}"
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    return table


def _cells(share: Share) -> tuple[str, ...]:
    words = f"{share.words:,}" if share.words else ""
    return megabytes2(share.bytes), f"{share.os_pages:,}", f"{share.only_os_pages:,}", words


def megabytes2(size_bytes: float) -> str:
    """Bytes as `12.34`, in MB: causes are often far below one."""
    return f"{size_bytes / 1e6:,.2f}"


def _causes(found: Explanation) -> Table:
    table = _table("cause", "MB", "pages", "only cause", "words")
    table.add_column("meaning", overflow="fold")
    for cause, share in found.causes:
        table.add_row(cause.label, *_cells(share), Text(cause.meaning, style="dim"))
    table.add_row("")
    return table


def _fields(found: Explanation) -> Table:
    table = _table("what was written", "MB", "pages", "only", "words")
    table.add_column("cause")
    for cause, label, share in found.fields[:_MAX_ROWS]:
        table.add_row(str(label), *_cells(share), Text(cause.label, style="dim"))
    table.add_row("")
    return table


def _writers(recording: Recording) -> Table:
    table = _table("writer", "faults")
    table.add_column("wrote first")
    table.add_column("called by")
    for writer in recording.writers[: 2 * _MAX_ROWS]:
        wrote = f"{writer.cause.label}: {writer.label}"
        callers = Text(" < ".join(writer.callers), style="dim")
        table.add_row(_cut(writer.function), f"{writer.faults:,}", _cut(wrote), callers)
    table.add_row("")
    return table


def held(holder: Holder) -> str:
    """Objects, their holder and its place: one line."""
    container = _CONTAINERS.get(holder.container, holder.container)
    return (
        f"{megabytes(holder.os_pages * OS_PAGE_BYTES)}, about: {holder.type} held by {container} "
        f"in {_shortened(holder.path)}{', written and restored' if holder.restored else ''}"
    )


def _owners(title: str, owners: tuple[Owner, ...]) -> Table:
    table = _table(title, "pages", "words")
    table.add_column("")
    for owner in owners[:_MAX_ROWS]:
        place = owner.file if owner.file else owner.path
        name = owner.path if owner.file else owner.type
        table.add_row(_cut(name), f"{owner.os_pages:,}", f"{owner.words:,}", _cut(place))
    table.add_row("")
    return table


def _cut(text: str) -> Text:
    return Text(_shortened(text))


def _shortened(text: str) -> str:
    return "..." + text[-_MAX_PATH_CHARACTERS:] if len(text) > _MAX_PATH_CHARACTERS else text
