"""Tables of Markdown for pages of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def line(cells: Iterable[str]) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"


def table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """The whole table, without a line end behind it."""
    return "\n".join(map(line, (head, ["---"] * len(head), *rows)))
