"""docs/results/identities.md, out of what is kept of each start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from matrix.environments import REPOSITORY
from matrix.identity.relations import Difference, Relations, accepted, differences, reason_for
from matrix.page import table

PAGE = REPOSITORY / "docs" / "results" / "identities.md"

_NAMES_SHOWN = 3

_TEXT = """\
# Identities of workers

By `make test-identity`. Some sixty things that programs take from their process are taken at the
import, in caches of functions, at the first request, in a hook of the fork and now: ids, times,
drawn numbers, names, generators, sockets, signals, limits. Compared is the relation between two
workers, plain and under pasture: whether both have the same, or each its own, and whether that is
what the worker would take now ([matrix/identity](../../matrix/identity/README.md)). The first table
counts what is compared (plain) and what differs from plain workers. The second says why.

{counts}

{reasons}
"""

Found = Mapping[str, Mapping[str, Relations | None]]
"""By engine and mode; None where nothing is kept."""


def write_page(found: Found) -> None:
    """Write the page; a start that was not made says so."""
    modes = list(dict.fromkeys(mode for starts in found.values() for mode in starts))
    rows = ([name, *_counts(name, starts, modes)] for name, starts in found.items())
    counts = table(["engine", *modes], rows)
    reasons = table(["reason", "taken", "things", "where"], _reasons(found))
    PAGE.write_text(_TEXT.format(counts=counts, reasons=reasons), encoding="utf-8")


def _counts(name: str, starts: Mapping[str, Relations | None], modes: list[str]) -> Iterator[str]:
    for mode in modes:
        here, plain = starts.get(mode), starts.get("plain")
        if mode not in starts:
            yield ""
        elif here is None or plain is None:
            yield "not run"
        elif mode == "plain":
            yield str(len(here))
        else:
            differing = list(differences(name, mode, plain, here))
            unknown = sum(reason_for(one, accepted()) is None for one in differing)
            yield str(len(differing)) + (f", {unknown} without a reason" if unknown else "")


def _reasons(found: Found) -> Iterator[list[str]]:
    """A row for each reason that something differs by."""
    by_reason: dict[str, list[Difference]] = {}
    rows = accepted()
    for name, starts in found.items():
        plain = starts.get("plain")
        for mode, here in starts.items():
            if plain is not None and here is not None:
                for one in differences(name, mode, plain, here):
                    by_reason.setdefault(reason_for(one, rows) or "none", []).append(one)
    for reason, differing in by_reason.items():
        split = [one.thing.partition(": ") for one in differing]
        yield [
            reason,
            ", ".join(dict.fromkeys(moment for moment, _, _ in split)),
            _first(dict.fromkeys(name for _, _, name in split)),
            _where(differing),
        ]


def _where(differing: list[Difference]) -> str:
    modes: dict[str, dict[str, None]] = {}
    for one in differing:
        modes.setdefault(one.engine, {})[one.mode] = None
    by_modes: dict[str, list[str]] = {}
    for engine, found in modes.items():
        by_modes.setdefault(", ".join(found), []).append(engine)
    return "; ".join(f"{', '.join(engines)} ({found})" for found, engines in by_modes.items())


def _first(names: Mapping[str, None]) -> str:
    """Names; of more than five the first three."""
    shown, more = list(names), len(names) - _NAMES_SHOWN
    return ", ".join(shown) if more <= 2 else f"{', '.join(shown[:_NAMES_SHOWN])} and {more} more"
