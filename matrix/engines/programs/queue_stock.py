"""What the jobs of queues read: 60,000 articles, loaded at the import. Knows no queue."""

from __future__ import annotations

import os
from typing import Any

ARTICLES: list[dict[str, Any]] = [
    {"name": f"article {i}", "price": i / 100, "tags": (f"shelf {i % 500}", i / 3)}
    for i in range(60_000)
]


def read_all() -> dict[str, int]:
    """Read every article; the pid and the memory of this process, bytes."""
    total = 0.0
    for article in ARTICLES:
        shelf, weight = article["tags"]
        total += len(article["name"]) + article["price"] + len(shelf) + weight
    return {"pid": os.getpid(), **memory()}


def memory(pid: int | str = "self") -> dict[str, int]:
    found = {"private": 0, "pss": 0}
    with open(f"/proc/{pid}/smaps_rollup") as lines:  # noqa: PTH123
        for line in lines:
            name, _, rest = line.partition(":")
            if name.startswith("Private") and "Hugetlb" not in name:
                found["private"] += 1024 * int(rest.split()[0])
            elif name == "Pss":
                found["pss"] += 1024 * int(rest.split()[0])
    return found
