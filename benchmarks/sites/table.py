"""docs/sites.md, out of what the sites gave."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks.sites.site import Site

MB = 1e6


def page(sites: Iterable[Site], before: str) -> str:
    """The page, with a row a site that has figures.

    Args:
        before: the page as it is; rows of sites that were measured elsewhere are taken from it.
    """
    kept = {line.split("|")[1].strip(): line for line in before.splitlines() if line[:1] == "|"}
    rows = [
        _row(site, json.loads(site.result.read_text())) if site.result.exists() else kept[site.name]
        for site in sites
        if site.result.exists() or site.name in kept
    ]
    ratios = [float(row.split("|")[_RATIO_AT]) for row in rows]
    median = f"{statistics.median(ratios):.2f}" if ratios else "-"
    return _PAGE.format(rows="\n".join(rows), count=len(rows), median=median)


def _row(site: Site, document: dict[str, Any]) -> str:
    stock, seal = (document["policies"][name] for name in ("stock", "seal"))
    cells = (
        site.name,
        site.about,
        site.python,
        f"{stock['private_bytes_median'] / MB:.1f}",
        f"{seal['private_bytes_median'] / MB:.1f}",
        f"{_ratio(document, 'seal', 'private_bytes_median'):.2f}",
        f"{_largest(seal) / _largest(stock):.2f}",
        f"{_ratio(document, 'warm-freeze', 'private_bytes_median'):.2f}",
        f"{stock['total_pss_bytes'] / MB:.0f}",
        f"{_ratio(document, 'seal', 'total_pss_bytes'):.2f}",
        f"{_ratio(document, 'seal', 'requests_per_s'):.2f}",
        "yes" if document["answers_agree"] else "no",
    )
    return f"| {' | '.join(cells)} |"


def _ratio(document: dict[str, Any], policy: str, figure: str) -> float:
    policies = document["policies"]
    return float(policies[policy][figure] / policies["stock"][figure])


def _largest(policy: dict[str, Any]) -> float:
    """Private memory of the worker that has most, bytes."""
    return float(max(worker["private_bytes"] for worker in policy["workers"]))


_HEADER = (
    *("site", "what it is", "CPython", "stock, MB", "seal, MB", "ratio"),
    *("largest", "freeze", "PSS, MB", "ratio", "requests", "same answers"),
)

_RATIO_AT = 1 + _HEADER.index("ratio")

_PAGE = f"""\
# Sites

Written by `make bench-sites`. {{count}} applications under gunicorn with 4 workers, each under the
same load with every policy ([pasture try](try.md)). Private memory is that of a worker, the median
of the four, in MB. The ratios are to stock: of the seal's private memory, of that of the largest
worker, of the median under a `gc.freeze()` after a warm-up, of the whole server's PSS, and of
requests a second. Workers for ASGI get unequal shares of the load: some serve most of it, some next
to nothing, and the ratio of the largest is the one to look at.

Median of the seal's ratio: {{median}}.

| {" | ".join(_HEADER)} |
| {" | ".join("---" for _ in _HEADER)} |
{{rows}}

[benchmarks/sites](../benchmarks/sites/README.md) has the versions, and what each is asked. The load
comes from a process of its own. Throughput is of one run each, on a shared machine.
"""
