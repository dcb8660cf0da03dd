"""A database with notes."""

import sqlite3

with sqlite3.connect("data.db") as database:
    database.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT, body TEXT)")
    rows = [(f"note {number}", "text " * 20) for number in range(500)]
    database.executemany("INSERT INTO notes (title, body) VALUES (?, ?)", rows)
