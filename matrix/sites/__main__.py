"""Runs other people's applications plain and under pasture, and compares what they do.

    python -m matrix.sites [NAME...] [--resume] [--mode NAME] [--lock] [--versions]

Each site's session logs in, creates, changes, uploads and deletes, before and after a reload. The
session runs twice against the plain server, then in each mode of pasture's. Statuses, masked
bodies, rows of databases, errors in logs and the end are compared. A difference that is not in
expected.toml, with its reason, makes the exit status 1. With --versions the same is done to a small
application on old and new versions of libraries (versions.toml), which writes
docs/results/versions.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click

from matrix.sites.catalog import Site, load_sites, load_versions
from matrix.sites.comparison import Difference, Plain, compare, reason
from matrix.sites.environments import lock, make_environment
from matrix.sites.kept import keep, kept
from matrix.sites.modes import MODES, PLAIN, PLAIN_RUNS, SEALED_AND_WARM, Mode
from matrix.sites.page import write_page
from matrix.sites.runs import Run, run_site


def choose(names: Sequence[str], sites: Mapping[str, Site]) -> list[Site]:
    """The sites of those names; all if there are none."""
    unknown = [name for name in names if name not in sites]
    if unknown:
        raise click.UsageError(f"no such site: {unknown[0]}; there are {', '.join(sites)}")
    return [sites[name] for name in names or sites]


def obtain(site: Site, mode: Mode, name: str, resume: bool) -> Run:
    """A run that is kept, or a new one: plain ones that failed are tried again."""
    run = kept(site, name) if resume else None
    if run is None or (mode is PLAIN and run.failure):
        click.echo(f"  {name} ...", err=True)
        run = run_site(site, mode)
        keep(site, name, run)
    return run


def examine(site: Site, modes: Sequence[Mode], resume: bool) -> bool:
    """Run and compare one site; whether all that differs is expected."""
    click.echo(f"=== {site.name}: {site.about}", err=True)
    make_environment(site)
    plain = Plain(*(obtain(site, PLAIN, name, resume) for name in PLAIN_RUNS))
    failure = plain.first.failure or plain.second.failure
    if failure or not plain.first.steps:
        click.echo(f"{site.name}: says nothing, it fails plain: {failure}")
        return False
    for step in plain.first.steps:
        if step.name.endswith("broke off") or step.status >= 500:
            click.echo(f"{site.name}: plain: {step.name}: {step.status} {step.text[:300]}")
    steps = len(plain.first.steps)
    click.echo(f"{site.name}: {steps} steps, {len(plain.unsteady)} differ plain from plain")
    fine = True
    for mode in modes:
        if mode.reforks and not site.refork:
            continue
        run = obtain(site, mode, mode.name, resume)
        fine &= report(site, mode, compare(plain, run), run)
    return fine


def report(site: Site, mode: Mode, differences: Sequence[Difference], run: Run) -> bool:
    """Print what differs under one mode; whether all of it is expected."""
    new = [one for one in differences if reason(site.name, one) is None]
    word = "as plain" if not differences else f"{len(differences)} differ, {len(new)} not listed"
    click.echo(f"{site.name} {mode.name}: {word}; {len(run.hazards)} lines of pasture's warn")
    for one in new:
        click.echo(f"  {one.what}")
        for line in one.detail.splitlines():
            click.echo(f"      {line}")
    return not new


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--resume", is_flag=True, help="Not what was run before, on the same sources.")
@click.option("--mode", "modes", multiple=True, type=click.Choice(list(MODES)))
@click.option("--lock", "locks", is_flag=True, help="Pin versions again, and run nothing.")
@click.option("--versions", is_flag=True, help="Old and new versions of libraries, and their page.")
def main(
    names: Sequence[str], resume: bool, modes: Sequence[str], locks: bool, versions: bool
) -> None:
    known = load_versions() if versions else load_sites()
    sites = choose(names, known)
    if locks:
        for site in sites:
            lock(site)
        return
    chosen = [MODES[name] for name in modes or ([SEALED_AND_WARM] if versions else MODES)]
    failed = []
    for site in sites:
        try:
            fine = examine(site, chosen, resume)
        except click.ClickException as error:
            click.echo(f"{site.name}: {error.message}", err=True)
            fine = False
        if not fine:
            failed.append(site.name)
    if versions:
        write_page(list(known.values()))
    if failed:
        click.echo(f"differ: {', '.join(failed)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
