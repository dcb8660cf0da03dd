"""What came of each site, kept in build/test-sites, so that a run can be taken up again.

Invariant: a result is only given back for the same table entry and the same build.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from benchmarks.uv import build_digest
from tests.sites.browser import Step
from tests.sites.catalog import Site
from tests.sites.runs import Run


def keep(site: Site, name: str, run: Run) -> None:
    """Keep one run of a site."""
    file = site.folder / f"{name}.json"
    document = {"site": site.as_dict(), "build": _build(name), "run": asdict(run)}
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def kept(site: Site, name: str) -> Run | None:
    """The run that is kept; None if there is none, or it is of another build or entry."""
    try:
        text = (site.folder / f"{name}.json").read_text(encoding="utf-8")
        document: dict[str, Any] = json.loads(text)
    except (OSError, ValueError):
        return None
    entry = json.loads(json.dumps(site.as_dict()))  # tuples are lists there
    if document["site"] != entry or document["build"] != _build(name):
        return None
    run = document["run"]
    steps = tuple(Step(**step) for step in run.pop("steps"))
    return Run(steps=steps, hazards=tuple(run.pop("hazards")), **run)


def _build(name: str) -> str:
    """What of pasture a run depends on: nothing, if it is plain."""
    return "" if name.startswith("plain") else build_digest()
