"""Notes behind Litestar, in SQLite, with its own logging: a listener in a thread of its own."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from litestar import Litestar, Request, delete, get, post
from litestar.datastructures import State
from litestar.exceptions import NotFoundException
from litestar.logging import LoggingConfig


@dataclass
class Note:
    """What a user sends."""

    title: str
    text: str


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    with sqlite3.connect(f"{os.environ['SITE_DATA']}/notes.db") as connection:
        yield connection
    connection.close()


def make_table() -> None:
    with database() as found:
        found.execute("create table if not exists notes (id integer primary key, title, text)")


@get("/notes", sync_to_thread=True)
def notes(state: State) -> list[dict[str, object]]:
    with database() as found:
        rows = found.execute("select id, title, text from notes order by id").fetchall()
    return [{"id": number, "title": title, "text": text} for number, title, text in rows]


@post("/notes", sync_to_thread=True)
def add(data: Note, request: Request) -> dict[str, object]:
    request.logger.info("a note: %s", data.title)
    with database() as found:
        made = found.execute(
            "insert into notes (title, text) values (?, ?)", (data.title, data.text)
        )
    return {"id": made.lastrowid}


@delete("/notes/{number:int}", sync_to_thread=True)
def remove(number: int) -> None:
    with database() as found:
        if not found.execute("delete from notes where id = ?", (number,)).rowcount:
            raise NotFoundException(f"no note {number}")


make_table()
application = Litestar([notes, add, remove], logging_config=LoggingConfig())
