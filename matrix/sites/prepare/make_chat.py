"""An empty table of rooms."""

import sqlite3

with sqlite3.connect("chat.db") as database:
    database.execute("CREATE TABLE rooms (name TEXT PRIMARY KEY)")
