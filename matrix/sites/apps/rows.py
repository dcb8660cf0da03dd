"""Rows in SQLite and jobs in threads, for the applications of versions.toml."""

import os
import sqlite3
import threading
from contextlib import closing

FILE = f"{os.environ['SITE_DATA']}/rows.db"


def execute(statement, *values):
    """Run a statement on a connection of its own; its rows."""
    with closing(sqlite3.connect(FILE, timeout=30)) as database, database:
        return database.execute(statement, values).fetchall()


execute("CREATE TABLE IF NOT EXISTS rows (text TEXT)")


def read():
    """All texts, in order."""
    return [text for (text,) in execute("SELECT text FROM rows ORDER BY rowid")]


def write(text):
    """A new row."""
    execute("INSERT INTO rows VALUES (?)", text)


def clear():
    """No row is left."""
    execute("DELETE FROM rows")


def start(job, *arguments):
    """Do a job next to the request."""
    threading.Thread(target=job, args=arguments, daemon=True).start()
