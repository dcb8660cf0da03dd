"""docs/results/sites.md, out of what the sites gave."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.sites.site import Site

MB = 1e6


def page(sites: Iterable[Site], before: str) -> str:
    """The page, with a row a site that has figures.

    Args:
        before: the page as it is; rows of sites that were measured elsewhere are taken from it,
            unless its columns are others.
    """
    lines = before.splitlines() if _HEADING in before else []
    kept = {line.split("|")[1].strip(): line for line in lines if line[:1] == "|"}
    shown = [site for site in sites if site.result.exists() or site.name in kept]
    rows = [
        _row(site, json.loads(site.result.read_text())) if site.result.exists() else kept[site.name]
        for site in shown
    ]
    return _PAGE.format(
        rows="\n".join(rows),
        count=len(rows),
        private=_median(rows, "ratio"),
        processor=_median(rows, "processor"),
        notes="".join(f"**{site.name}.** {site.note}\n\n" for site in shown if site.note),
    )


def _median(rows: Sequence[str], heading: str) -> str:
    """Of the column under a heading, the first of that name."""
    at = 1 + _HEADER.index(heading)
    cells = (row.split("|")[at].strip() for row in rows)
    values = [float(cell) for cell in cells if cell != _UNKNOWN]
    return f"{statistics.median(values):.2f}" if values else _UNKNOWN


def _row(site: Site, document: dict[str, Any]) -> str:
    stock, seal = (document["policies"][name] for name in ("stock", "seal"))
    cells = (
        site.name,
        site.about,
        site.python,
        f"{stock['private_bytes_median'] / MB:.1f}",
        f"{seal['private_bytes_median'] / MB:.1f}",
        _ratio(document, "seal", "private_bytes_median"),
        f"{_largest(seal) / _largest(stock):.2f}",
        _ratio(document, "warm-freeze", "private_bytes_median"),
        f"{stock['total_pss_bytes'] / MB:.0f}",
        _ratio(document, "seal", "total_pss_bytes"),
        _ratio(document, "seal", "processor_s_per_request"),
        "yes" if document["answers_agree"] else "no",
    )
    return f"| {' | '.join(cells)} |"


def _ratio(document: dict[str, Any], policy: str, figure: str) -> str:
    """A policy's figure to stock's; unknown where the trial was made before it was measured."""
    of_policy, of_stock = (document["policies"][name].get(figure) for name in (policy, "stock"))
    return f"{of_policy / of_stock:.2f}" if of_policy is not None and of_stock else _UNKNOWN


def _largest(policy: dict[str, Any]) -> float:
    """Private memory of the worker that has most, bytes."""
    return float(max(worker["private_bytes"] for worker in policy["workers"]))


_UNKNOWN = "-"

_HEADER = (
    *("site", "what it is", "CPython", "stock, MB", "seal, MB", "ratio"),
    *("largest", "freeze", "PSS, MB", "ratio", "processor", "same answers"),
)

_HEADING = f"| {' | '.join(_HEADER)} |"

_PAGE = f"""\
# Sites

Written by `make bench-sites`. {{count}} applications under gunicorn with 4 workers, each under the
same load with every policy ([pasture try](../try.md)). Private memory is that of a worker, the
median of the four, in MB. The ratios are to stock: of the seal's private memory, of that of the
largest worker, of the median under a `gc.freeze()` after a warm-up, of the whole server's PSS, and
of processor time a request. Workers for ASGI get unequal shares of the load: some serve most of it,
some next to nothing, and the ratio of the largest is the one to look at.

Medians of the seal's ratios: private memory {{private}}, processor time {{processor}}.

{_HEADING}
| {" | ".join("---" for _ in _HEADER)} |
{{rows}}

{{notes}}[benchmarks/sites](../../benchmarks/sites/README.md) has the versions and the requests.
The load comes from a process of its own. Each policy ran once.
"""
