"""`make bench-sites`: applications that others have written, stock against seal.

Each site has an environment and a database of its own. `pasture try` runs in that environment; the
load comes from this one. What a site gave is kept, and the next run goes on with the others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from benchmarks.sites import table
from benchmarks.sites.environment import lock, make_environment, prepare
from benchmarks.sites.site import SITES, Site, read_sites
from benchmarks.sites.trial import measure

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "sites.md"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--again", is_flag=True, help="Measure sites that have figures already.")
@click.option("--lock", "locks", is_flag=True, help="Pin versions anew, and measure nothing.")
@click.option("--requests", default=1000, show_default=True)
@click.option("--workers", default=4, show_default=True)
def main(names: tuple[str, ...], again: bool, locks: bool, requests: int, workers: int) -> None:
    """Measure the sites named, or all, and write docs/results/sites.md."""
    sites = read_sites(SITES)
    unknown = set(names) - set(sites)
    if unknown:
        raise click.UsageError(f"no such site: {', '.join(sorted(unknown))}; {', '.join(sites)}")
    chosen = [site for name, site in sites.items() if not names or name in names]
    if locks:
        for site in chosen:
            lock(site)
        return
    failed = [site.name for site in chosen if not _try(site, again, requests, workers)]
    text = table.page(sites.values(), PAGE.read_text() if PAGE.exists() else "")
    PAGE.write_text(text)
    click.echo(text)
    if failed:
        click.echo(f"failed: {', '.join(failed)}", err=True)
        sys.exit(1)


def _try(site: Site, again: bool, requests: int, workers: int) -> bool:
    if site.result.exists() and not again:
        return True
    click.echo(f"=== {site.name}: {site.about}", err=True)
    try:
        python = make_environment(site)
        prepare(site, python)
        document = measure(site, python, requests, workers)
    except click.ClickException as error:
        click.echo(f"{site.name}: {error.message}", err=True)
        return False
    site.result.write_text(json.dumps(document, indent=1))
    return True


if __name__ == "__main__":
    main()
