"""`manage.py fill`: makes the database and the load that goes with it."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection

from meadow.seeding.load import load_paths
from meadow.seeding.market import seed_market
from meadow.seeding.session import session_headers


class Command(BaseCommand):
    # Checks open the database, which need not be there yet.
    requires_system_checks: list[str] = []
    help = (
        "Makes the database anew, always with the same content, and writes the load "
        "beside it: urls.txt (paths) and headers.txt (the session of the staff)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--load-dir",
            type=Path,
            help="folder for urls.txt and headers.txt (default: the database's)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        database = Path(connection.settings_dict["NAME"])
        load_dir = options["load_dir"] or database.parent
        database.parent.mkdir(parents=True, exist_ok=True)
        load_dir.mkdir(parents=True, exist_ok=True)

        paths = _build(database)
        _set_journal_mode("WAL")
        urls_file, headers_file = load_dir / "urls.txt", load_dir / "headers.txt"
        urls_file.write_text(_as_text(paths), encoding="utf-8")
        headers_file.write_text("\n".join([*session_headers(), ""]), encoding="utf-8")

        count = sum(map(len, paths.values()))
        self.stdout.write(f"{database}\n{urls_file} ({count} paths)\n{headers_file}")


def _build(database: Path) -> dict[str, list[str]]:
    """Builds beside `database` and takes its place only when complete.

    A site that serves the old file goes on doing so until it reconnects.
    """
    unfinished = database.with_name(f"{database.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    connection.settings_dict["NAME"] = unfinished
    try:
        _set_journal_mode("WAL")
        call_command("migrate", verbosity=0)
        seed_market()
        paths = load_paths()
        _set_journal_mode("DELETE")  # the database is one file, which can be moved
        connection.close()
        _remove_journals(database)
        unfinished.replace(database)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = database
        unfinished.unlink(missing_ok=True)
    return paths


def _set_journal_mode(mode: str) -> None:
    """Kept in the file, for all connections to come."""
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA journal_mode={mode}")


def _remove_journals(database: Path) -> None:
    """A write-ahead log that a killed server left would be applied to the new file."""
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def _as_text(paths: dict[str, list[str]]) -> str:
    parts = ["\n".join([f"# {part}", *part_paths, ""]) for part, part_paths in paths.items()]
    return "\n".join(parts)
