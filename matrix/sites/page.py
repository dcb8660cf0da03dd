"""docs/results/versions.md, out of what is kept of each row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from matrix.page import table
from matrix.sites.catalog import REPOSITORY, Site
from matrix.sites.comparison import Plain, compare, reason
from matrix.sites.kept import kept
from matrix.sites.modes import PLAIN_RUNS, SEALED_AND_WARM

PAGE = REPOSITORY / "docs" / "results" / "versions.md"

_HEAD = ("library", "CPython", "with", "steps", "under pasture")

_TEXT = """\
# Versions of libraries

Written by `make test-versions`. Each row is a small application on the oldest version of a library
that pasture is tried with, or on the newest: rows in SQLite that many clients read while one writes
and removes them, a job, a page that fails, and the same again after SIGHUP. It ran twice as its
command says, and then under `pasture run` with a warm-up and its probe. Compared are the
status and the body of each answer, the rows, the errors in the log, the exit code and what is left
([matrix/sites](../../matrix/sites/README.md)). *Steps* are what was compared.

{table}
"""


def write_page(sites: Sequence[Site]) -> None:
    """Write the page; a row that was not run says so."""
    PAGE.write_text(_TEXT.format(table=table(_HEAD, map(_row, sites))))


def _row(site: Site) -> Sequence[str]:
    """The cells of one row."""
    library = site.name.rpartition("-")[0]
    versions = _versions(site)
    names = [re.split(r"[=<>\[]", package)[0] for package in site.packages]
    around = [f"{name} {versions.get(name, '')}" for name in names if name != library]
    return (
        f"{library} {versions.get(library, '')}",
        site.python,
        ", ".join(around),
        *_outcome(site),
    )


def _versions(site: Site) -> Mapping[str, str]:
    """Dict of package to version, as they are pinned."""
    text = site.lock_file.read_text(encoding="utf-8") if site.lock_file.exists() else ""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def _outcome(site: Site) -> tuple[str, str]:
    """Number of steps, and how they compare."""
    first, second, other = (kept(site, name) for name in (*PLAIN_RUNS, SEALED_AND_WARM))
    if first is None or second is None or other is None:
        return "", "not run"
    broken = [step.name for step in first.steps if step.status >= 500]
    if first.failure or broken:
        return "", f"it fails plain: {first.failure or broken[0]}"
    differences = compare(Plain(first, second), other)
    reasons = dict.fromkeys(reason(site.name, one) for one in differences)
    if None in reasons:
        return f"{len(first.steps)}", f"{len(differences)} differ"
    return f"{len(first.steps)}", ", but: ".join(("as plain", *map(str, reasons)))
