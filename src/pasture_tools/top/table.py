"""The columns of `pasture top`: words, order, and plain text.

The live screen is `screen`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pasture.trust.untrusted_text import printable
from pasture_tools.display.units import count, megabytes
from pasture_tools.doctor import trouble
from pasture_tools.top.watch import Limits, Row

_MAX_LINES = 4


@dataclass(frozen=True, slots=True)
class Column:
    key: str  # key on the keyboard that sorts by it, or ""
    title: str  # heading above it
    text: Callable[[Row], str]  # text for a process
    order: Callable[[Row], float]  # number by which processes are sorted; larger comes first


def _rate(value: float | None, form: Callable[[float], str]) -> str:
    return "" if value is None else form(value)


COLUMNS = (
    Column("i", "pid", lambda r: str(r.pid), lambda r: -r.pid),
    Column("", "role", lambda r: r.role, lambda r: r.is_master),
    Column("", "gen", lambda r: "" if r.generation is None else str(r.generation), lambda r: 0),
    Column("p", "PSS", lambda r: megabytes(r.memory.pss_bytes), lambda r: r.memory.pss_bytes),
    Column(
        "v",
        "private",
        lambda r: megabytes(r.memory.private_bytes),
        lambda r: r.memory.private_bytes,
    ),
    Column(
        "h", "shared", lambda r: megabytes(r.memory.shared_bytes), lambda r: r.memory.shared_bytes
    ),
    Column(
        "g",
        "growth/min",
        lambda r: _rate(r.growth_bytes_a_minute, lambda v: f"{v / 1e6:+.2f} MB"),
        lambda r: r.growth_bytes_a_minute or 0.0,
    ),
    Column(
        "f",
        "faults/s",
        lambda r: _rate(r.faults_a_second, lambda v: f"{v:,.0f}"),
        lambda r: r.faults_a_second or 0.0,
    ),
    Column(
        "r",
        "requests",
        lambda r: "" if r.requests is None else f"{r.requests:,}",
        lambda r: r.requests or 0,
    ),
)
COMMAND = Column("", "program", lambda r: r.command, lambda r: 0)
"""The last column, for programs out of an image."""


def columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    """The columns for some processes."""
    return (*COLUMNS, COMMAND) if any(r.command for r in rows) else COLUMNS


def ordered(rows: Sequence[Row], key: str) -> list[Row]:
    """The master, then the workers by the column with that key."""
    column = next(c for c in COLUMNS if c.key == key)
    return sorted(rows, key=lambda r: (not r.is_master, -column.order(r)))


def summary(rows: Sequence[Row]) -> str:
    """One line over all processes."""
    total = sum(r.memory.pss_bytes for r in rows)
    programs = [r for r in rows if r.command]
    workers = [r for r in rows if r.role == "worker"]
    counted = programs + workers
    private = sum(r.memory.private_bytes for r in counted)
    each = f", {megabytes(private / len(counted))} private each" if counted else ""
    names = f"{count(len(programs), 'program')} out of one image, " if programs else ""
    return f"{megabytes(total)} in all, {names}{count(len(workers), 'worker')}{each}"


def dangers(rows: Sequence[Row], found: Limits) -> str:
    """The server's dangers, one line each; hazards last."""
    workers = [
        trouble.Worker(r.pid, r.memory, r.shown, r.is_locked) for r in rows if r.role == "worker"
    ]
    parents = [r.memory for r in rows if r.pid == found.parent_pid]
    lines = [
        str(one)
        for master in parents or [r.memory for r in rows if r.is_master]
        for one in trouble.troubles(master, workers, found.group, is_sealed=found.is_sealed)
    ]
    lines += [found.dead] * bool(found.dead)
    lines += (f"hazard: {hazard}" for hazard in found.hazards)
    more = [f"and {len(lines) - _MAX_LINES} more, which pasture doctor names"]
    return "\n".join(lines[:_MAX_LINES] + more * (len(lines) > _MAX_LINES))


def limits(found: Limits) -> str:
    """The figures that count for the present limits, one line each."""
    lines = []
    if found.group is None:
        lines.append(
            "no cgroup limit: the PSS of all processes counts, against the machine's memory"
        )
    else:
        group = found.group
        lines.append(
            f"limit of {megabytes(group.limit_bytes)} in {printable(str(group.group))}: its "
            f"working set counts, {megabytes(group.working_set_bytes)} now; about the PSS of all "
            "processes in it, and what the kernel keeps for them"
        )
    if found.max_uss:
        lines.append(f"--max-uss {found.max_uss}: the private memory of each worker counts")
    return "\n".join(lines)


def plain(rows: Sequence[Row], found: Limits) -> str:
    """The table as text, for logs and scripts."""
    chosen = columns(rows)
    lines = [[column.title for column in chosen]]
    lines += [[column.text(r) for column in chosen] for r in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(chosen))]
    text = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    above = (found.state,) if found.state else ()
    below = filter(None, (summary(rows), dangers(rows, found), limits(found)))
    return "\n".join((*above, *text, *below)) + "\n"


def as_document(master_pid: int | None, rows: Sequence[Row], found: Limits) -> dict[str, Any]:
    """A snapshot as plain values, schema 1; sizes are bytes.

    Args:
        master_pid: None for programs out of an image.
    """
    group = found.group
    return {
        "schema": 1,
        "master": master_pid,
        "state": found.state or None,
        "cgroup": None
        if group is None
        else {
            "group": str(group.group),
            "limit_bytes": group.limit_bytes,
            "used_bytes": group.used_bytes,
            "working_set_bytes": group.working_set_bytes,
        },
        "max_uss": found.max_uss or None,
        "dangers": dangers(rows, found).splitlines(),
        "processes": [
            {
                "pid": r.pid,
                "role": r.role,
                **({"program": r.command} if r.command else {}),
                "generation": r.generation,
                "requests": r.requests,
                "pss_bytes": r.memory.pss_bytes,
                "private_bytes": r.memory.private_bytes,
                "shared_bytes": r.memory.shared_bytes,
                "growth_bytes_a_minute": r.growth_bytes_a_minute,
                "faults_a_second": r.faults_a_second,
            }
            for r in rows
        ],
    }
