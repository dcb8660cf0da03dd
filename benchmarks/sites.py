"""Applications that others have written, stock against seal: writes docs/results/sites.md.

Each site has an environment and a database of its own. `pasture try` runs in that environment; the
load comes from this one. What a site gave is kept, and the next run goes on with the others.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from matrix.environments import REPOSITORY
from matrix.page import line, table
from matrix.sites.catalog import MeasuredSite, load_measured
from matrix.sites.environments import lock, make_environment, restore_data, variables
from matrix.store import Store

PAGE = REPOSITORY / "docs" / "results" / "sites.md"
FOLDER = REPOSITORY / "var" / "bench-sites"
MB = 1e6
POLICIES = ("stock", "warm-freeze", "seal")
BOOT_S = 300

_USERS_A_WORKER = 4
"""Users keep their connections, and a worker for ASGI takes connections as they come: with one user
a worker some workers get none."""

Document = dict[str, Any]
"""Of a trial, as `pasture try --json` writes it."""


def results() -> Store[Document]:
    return Store(FOLDER, decode=dict)


def prepare(site: MeasuredSite) -> None:
    """Make the site's database and what it is asked, unless they are there."""
    if not (site.data / "urls.txt").exists():
        restore_data(site, {})


def measure(site: MeasuredSite, requests: int, workers: int) -> Document:
    """The document of the trial.

    Raises:
        click.ClickException: the trial ended with an error.
    """
    if not site.sealed:
        return _try(site, POLICIES, {}, requests, workers)
    others = tuple(policy for policy in POLICIES if policy != "seal")
    document = _try(site, others, {}, requests, workers)
    sealed = _try(site, ("stock", "seal"), site.sealed, requests, workers)
    document["policies"]["seal"] = sealed["policies"]["seal"]
    document["answers_agree"] &= sealed["answers_agree"]
    return document


def _try(
    site: MeasuredSite,
    policies: tuple[str, ...],
    more: Mapping[str, str],
    requests: int,
    workers: int,
) -> Document:
    report = site.data / "report.json"
    words: list[object] = [site.python_program, "-m", "pasture", "try", site.app]
    for policy in policies:
        words += ["--policy", policy]
    words += ["-w", workers, "-c", _USERS_A_WORKER * workers, "-n", requests]
    words += ["--urls-file", site.data / "urls.txt"]
    if (site.data / "headers.txt").exists():
        words += ["--urls-file", site.data / "headers.txt"]
    words += ["--json", report, "--log-dir", site.data / "logs"]
    words += ["--server-timeout", BOOT_S]
    known = {"PYTHONPATH": ""} | variables(site, {})
    for name in ("PYTHONHASHSEED", "PYTHONUNBUFFERED"):  # as users have it
        del known[name]
    for name, value in more.items():
        words += ["--env", f"{name}={value}"]
    with (site.data / "try.txt").open("w") as output:
        command = [str(word) for word in (*words, "--", *site.arguments)]
        done = subprocess.run(
            command,
            env=known,
            cwd=site.data / site.chdir,
            stdout=output,
            stderr=output,
        )
    if done.returncode != 0:
        end = "\n".join((site.data / "try.txt").read_text().splitlines()[-15:])
        raise click.ClickException(f"pasture try ended with {done.returncode}:\n{end}")
    document: Document = json.loads(report.read_text())
    return document


def page(found: Iterable[tuple[MeasuredSite, Document | None]], before: str) -> str:
    """The page, with a row a site that has figures.

    Args:
        found: sites in their order, each with what is kept of it.
        before: the page as it is; rows of sites that were measured elsewhere are taken from it,
            unless its columns are others.
    """
    lines = before.splitlines() if _HEADING in before else []
    kept = {each.split("|")[1].strip(): each for each in lines if each[:1] == "|"}
    shown = [(site, document) for site, document in found if document or site.name in kept]
    rows = [_row(site, document) if document else kept[site.name] for site, document in shown]
    return _PAGE.format(
        rows="\n".join(rows),
        count=len(rows),
        private=_median(rows, "ratio"),
        processor=_median(rows, "processor"),
        notes="".join(f"**{site.name}.** {site.note}\n\n" for site, _ in shown if site.note),
    )


def _median(rows: Sequence[str], heading: str) -> str:
    """Of the column under a heading, the first of that name."""
    at = 1 + _HEADER.index(heading)
    cells = (row.split("|")[at].strip() for row in rows)
    values = [float(cell) for cell in cells if cell != _UNKNOWN]
    return f"{statistics.median(values):.2f}" if values else _UNKNOWN


def _row(site: MeasuredSite, document: Document) -> str:
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
    return line(cells)


def _ratio(document: Document, policy: str, figure: str) -> str:
    """A policy's figure to stock's; unknown where the trial was made before it was measured."""
    of_policy, of_stock = (document["policies"][name].get(figure) for name in (policy, "stock"))
    return f"{of_policy / of_stock:.2f}" if of_policy is not None and of_stock else _UNKNOWN


def _largest(policy: Document) -> float:
    """Private memory of the worker that has most, bytes."""
    return float(max(worker["private_bytes"] for worker in policy["workers"]))


_UNKNOWN = "-"

_HEADER = (
    *("site", "what it is", "CPython", "stock, MB", "seal, MB", "ratio"),
    *("largest", "freeze", "PSS, MB", "ratio", "processor", "same answers"),
)

_HEADING = line(_HEADER)

_PAGE = f"""\
# Sites

Written by `make bench-sites`. {{count}} applications under gunicorn with 4 workers, each under the
same load with every policy ([pasture try](../try.md)). Private memory is that of a worker, the
median of the four, in MB. The ratios are to stock: of the seal's private memory, of that of the
largest worker, of the median under a `gc.freeze()` after a warm-up, of the whole server's PSS, and
of processor time a request. Workers for ASGI get unequal shares of the load: some serve most of it,
some next to nothing, and the ratio of the largest is the one to look at.

Medians of the seal's ratios: private memory {{private}}, processor time {{processor}}.

{table(_HEADER, ())}
{{rows}}

{{notes}}[matrix/sites](../../matrix/sites/README.md#what-sites-cost) has the versions, and what
each is asked. The load comes from a process of its own. Each policy ran once.
"""


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--again", is_flag=True, help="Measure sites that have figures already.")
@click.option("--lock", "locks", is_flag=True, help="Pin versions again, and measure nothing.")
@click.option("--requests", default=1000, show_default=True)
@click.option("--workers", default=4, show_default=True)
def main(names: tuple[str, ...], again: bool, locks: bool, requests: int, workers: int) -> None:
    """Measure the sites named, or all, and write docs/results/sites.md."""
    sites, store = load_measured(), results()
    unknown = set(names) - set(sites)
    if unknown:
        raise click.UsageError(f"no such site: {', '.join(sorted(unknown))}; {', '.join(sites)}")
    failed = []
    for site in (site for name, site in sites.items() if not names or name in names):
        if locks:
            if not site.lock:
                lock(site)
        elif again or store.kept(site.name) is None:
            click.echo(f"=== {site.name}: {site.about}", err=True)
            try:
                make_environment(site)
                prepare(site)
                store.keep(site.name, measure(site, requests, workers))
            except click.ClickException as error:
                click.echo(f"{site.name}: {error.message}", err=True)
                failed.append(site.name)
    if locks:
        return
    found = [(site, store.kept(site.name)) for site in sites.values()]
    text = page(found, PAGE.read_text() if PAGE.exists() else "")
    PAGE.write_text(text)
    click.echo(text)
    if failed:
        click.echo(f"failed: {', '.join(failed)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
