"""Tries pasture on builds of CPython of many shapes, and writes the matrix in docs/.

    python matrix/builds [NAME...] [--page]

Without names all that `tools/builds list` names, except those that run only when they
are asked for, and the page is written; with names it stays as it is until `--page`. On each: an
installation from source and by wheel, the native tests, and a child's private memory. What came
of a build is kept; a run takes up where the last one left off. The exit status is 1 if a build
fails, or is refused without reason, or is taken that should not be.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

sys.path.append(str(Path(__file__).resolve().parents[2]))  # matrix

from kept import keep, kept, kept_for_page
from page import Build, Row, complaints, write_page
from trials import REPOSITORY, Outcome, complete, run


def known_builds() -> list[Build]:
    rows = json.loads(run(REPOSITORY / "tools" / "builds", "list", "--json"))
    return [Build(**row) for row in rows]


def outcome_of(build: Build, with_tests: bool) -> Outcome:
    """The outcome of a build: as it is kept, and what is missing is tried now."""
    outcome = complete(kept(build.name, build.minor), build.minor, build.ways, with_tests)
    keep(outcome, build.minor)
    click.echo(f"{build.name}: {Row(build, outcome).in_short()}")
    return outcome


def kept_rows(builds: list[Build]) -> list[Row]:
    found = [Row(build, kept_for_page(build.name)) for build in builds]
    return [row for row in found if row.outcome.facts or row.outcome.absent]


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--page", "page_only", is_flag=True, help="Only write the page, of what is kept.")
@click.option("--no-tests", is_flag=True, help="Leave the native tests for another run.")
def main(names: tuple[str, ...], page_only: bool, no_tests: bool) -> None:
    builds = known_builds()
    unknown = set(names) - {build.name for build in builds}
    if unknown:
        raise click.UsageError(f"no such build: {min(unknown)}; see `tools/builds list`")
    wanted = [b for b in builds if b.name in names or (not names and not b.asked_for)]
    rows = kept_rows(builds)
    if not page_only:
        tried = [Row(build, outcome_of(build, not no_tests)) for build in wanted]
        others = [row for row in rows if row.build not in wanted]
        rows = sorted([*tried, *others], key=lambda row: builds.index(row.build))
    if not names:
        names_of_rows = {row.build.name for row in rows}
        write_page(rows, [b.name for b in builds if b.name not in names_of_rows])
    for line in complaints(rows):
        click.echo(line, err=True)
    sys.exit(1 if complaints(rows) else 0)


if __name__ == "__main__":
    main()
