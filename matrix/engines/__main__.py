"""`python -m matrix.engines [ROW ...]`: measures rows that lack results, writes the page.

Owns the order of starts and what is left out because it is there already. A row that fails does not
stop the others; the exit code says that one did.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psutil

from matrix.engines import rows
from matrix.engines.engine import VARIANTS, Engine, Place, Variant
from matrix.engines.environments import pins_of, python_for
from matrix.engines.page import write_page
from matrix.engines.results import Result, key_of, store
from matrix.environments import REPOSITORY
from pasture.errors import PastureError

PAGE = REPOSITORY / "docs" / "results" / "engines.md"


def engines() -> list[Engine]:
    """The rows of the folder, in the order of the table."""
    modules = (
        importlib.import_module(f"{rows.__name__}.{found.name}")
        for found in pkgutil.iter_modules(rows.__path__)
    )
    return sorted((module.ENGINE for module in modules), key=lambda e: (e.rank, e.name))


def chosen(known: Sequence[Engine], names: Sequence[str]) -> list[Engine]:
    """The rows of these names; all where there is none.

    Raises:
        click.BadParameter: there is no such row.
    """
    unknown = set(names).difference(engine.name for engine in known)
    if unknown:
        have = ", ".join(engine.name for engine in known)
        raise click.BadParameter(f"no row {', '.join(sorted(unknown))}; there are {have}")
    return [engine for engine in known if not names or engine.name in names]


def order(number: int) -> tuple[Variant, ...]:
    """The variants in the order in which a round starts them: it changes each round."""
    return VARIANTS if number % 2 == 0 else VARIANTS[::-1]


def measure(engine: Engine, rounds: int, again: bool) -> None:
    """Bring a row to the given rounds. Each start is kept at once."""
    python = python_for(engine.packages)
    version = _ask(python, "import platform; print(platform.python_version())")
    key = key_of(engine, version)
    result = store().kept(engine.name, key)
    if again or result is None:
        result = Result({"CPython": version, **_versions(engine, python)})
    if result.rounds() >= rounds:
        click.echo(f"{engine.name}: {result.rounds()} rounds are there", err=True)
    for number in range(result.rounds(), rounds):
        for variant in order(number):
            if len(result.starts.get(variant, [])) > number:
                continue
            with TemporaryDirectory() as folder:
                figures = engine.measure(variant, Place(python, Path(folder)))
            result.add(variant, figures)
            store().keep(engine.name, result, key)
            click.echo(f"{engine.name}, round {number + 1}, {variant}: {figures}", err=True)


def _ask(python: Path, program: str) -> str:
    return subprocess.check_output([python, "-c", program], text=True).strip()


def _versions(engine: Engine, python: Path) -> Mapping[str, str]:
    """Of the packages that the pins name, or else of the package that the row is named for."""
    pinned = pins_of(engine.packages).get("packages", [])
    names = [pin.partition("=")[0].partition("[")[0] for pin in pinned] or [engine.name]
    found = {}
    for name in names:
        ask = f"import importlib.metadata as m; print(m.version({name!r}))"
        done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found[name] = done.stdout.strip()
    return found


@click.command()
@click.argument("names", nargs=-1, metavar="[ROW ...]")
@click.option("--rounds", default=3, show_default=True, help="Starts of each variant.")
@click.option("--again", is_flag=True, help="Forget what is kept of these rows first.")
@click.option("--list", "only_list", is_flag=True, help="Name the rows, measure nothing.")
@click.option("--page", "only_page", is_flag=True, help="Write the page from what is kept.")
def main(names: tuple[str, ...], rounds: int, again: bool, only_list: bool, only_page: bool) -> int:
    """Measure engines as they are and sealed; write docs/results/engines.md."""
    known = engines()
    wanted = chosen(known, names)
    if only_list:
        for engine in wanted:
            click.echo(f"{engine.name:14} {engine.title}")
        return 0
    failed = [] if only_page else [e.name for e in wanted if not _is_measured(e, rounds, again)]
    before = PAGE.read_text() if PAGE.exists() else ""
    PAGE.write_text(write_page([(engine, store().kept(engine.name)) for engine in known], before))
    click.echo(f"written: {PAGE.relative_to(REPOSITORY)}")
    if failed:
        raise click.ClickException(f"not measured: {', '.join(failed)}")
    return 0


def _is_measured(engine: Engine, rounds: int, again: bool) -> bool:
    try:
        measure(engine, rounds, again)
    except PastureError as error:
        click.echo(f"{engine.name}: {error.message}\n{error.hint}", err=True)
    except click.ClickException as error:
        click.echo(f"{engine.name}: {error.message}", err=True)
    except (OSError, psutil.Error, subprocess.SubprocessError) as error:
        click.echo(f"{engine.name}: {type(error).__name__}: {error}", err=True)
    else:
        return True
    return False


if __name__ == "__main__":
    main()
