"""Console scripts of others, by `python` and out of images: `make test-scripts`.

    python -m matrix.scripts [APPLICATION ...] [--kind KIND] [--again VERDICT] [--page]

Goes on where it stopped, and writes docs/results/scripts.md of what is kept. README.md next to this
says what is compared. Needs root: programs run as another user without a network.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click

from matrix.scripts.catalog import CATALOG, MODULES, cases
from matrix.scripts.environments import FOLDER, KINDS, MINOR, SCRATCH, digest, environment, image
from matrix.scripts.page import Found, write_page
from matrix.scripts.runs import Outcome, compare
from matrix.store import Store

ALL = (MODULES, *CATALOG["applications"])
OUTCOMES: Store[Outcome] = Store(FOLDER / "outcomes", Outcome)
FAILED: Store[str] = Store(FOLDER / "failed", decode=str)


def examine(application: str, kind: str, others: set[str], repeat: Sequence[str]) -> None:
    """Run what is not kept of an application."""
    try:
        bin = environment(application)
    except click.ClickException:
        FAILED.keep(application, f"cannot be installed on CPython {MINOR}")
        return
    FAILED.file(application).unlink(missing_ok=True)
    todo = [
        case
        for case in cases(application, bin, others)
        if (kept := OUTCOMES.kept(f"{kind}/{application}/{case.key}")) is None
        or kept.verdict in repeat
    ]
    if not todo:
        return
    path, why = image(application, kind, bin)
    if path is None:
        FAILED.keep(f"{application} {kind}", why)
        return
    for case in todo:
        found = compare(case, bin, path, SCRATCH / application)
        if found.verdict == "differs" and case.module and kind == "scripts":
            alone, _ = image(application, kind, bin, case.module)
            again = alone and compare(case, bin, alone, SCRATCH / application)
            if again and again.verdict in ("same", "varies"):
                found = Outcome("others", found.why)
        OUTCOMES.keep(f"{kind}/{application}/{case.key}", found, [list(case.words), digest()])
        if found.verdict != "same":
            click.echo(f"{application}, {kind}: {case.key}: {found.verdict} {found.why}")


def kept() -> Found:
    """By kind, application and case."""
    found: Found = {}
    for kind in KINDS:
        for file in sorted((OUTCOMES.folder / kind).glob("*/*.json")):
            if one := OUTCOMES.kept(f"{kind}/{file.parent.name}/{file.stem}"):
                found[kind, file.parent.name, file.stem] = one
    return found


def failed() -> Mapping[str, str]:
    """Why an application or its image is not there."""
    names = [file.stem for file in sorted(FAILED.folder.glob("*.json"))]
    return {name: FAILED.kept(name) or "" for name in names}


@click.command()
@click.argument("applications", nargs=-1)
@click.option("--kind", type=click.Choice(KINDS), help="Images of this kind alone.")
@click.option("--again", multiple=True, metavar="VERDICT", help="Run once more what ended so.")
@click.option("--page", is_flag=True, help="Write the page of what is kept, and run nothing.")
def main(
    applications: tuple[str, ...], kind: str | None, again: tuple[str, ...], page: bool
) -> None:
    """Compare scripts of APPLICATION, or of all."""
    for each in () if page else KINDS if kind is None else (kind,):
        others: set[str] = set()
        for application in applications or ALL:
            if application not in CATALOG["left_out"]:
                click.echo(f"{application}, {each}", err=True)
                examine(application, each, others, again)
    found = kept()
    write_page(found, failed())
    sys.exit(any(one.verdict == "differs" for one in found.values()))


if __name__ == "__main__":
    main()
