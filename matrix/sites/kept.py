"""The outcome of each site, kept in build/test-sites, so that a run can be taken up again.

A result is only given back for the same table entry and the same build.
"""

from __future__ import annotations

from typing import Any

from matrix.environments import build_digest
from matrix.sites.catalog import Site
from matrix.sites.runs import Run
from matrix.store import Store


def keep(site: Site, name: str, run: Run) -> None:
    """Keep one run of a site."""
    Store(site.folder, Run).keep(name, run, _of(site, name))


def kept(site: Site, name: str) -> Run | None:
    """The run that is kept; None if there is none, or it is of another build or entry."""
    return Store(site.folder, Run).kept(name, _of(site, name))


def _of(site: Site, name: str) -> Any:
    """The table entry, and pasture's build unless the run is plain."""
    return {"site": site.as_dict(), "build": "" if name.startswith("plain") else build_digest()}
