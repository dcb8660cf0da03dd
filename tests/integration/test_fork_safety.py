"""Closing what must not cross a fork, with the real libraries."""

import subprocess
import sys
import textwrap

import pytest


def run(program, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


DJANGO = """
import sys
import django
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]},
        "memory": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    }
)
django.setup()
"""


def test_django_connections_are_closed_and_come_back(tmp_path):
    pytest.importorskip("django")
    out = run(
        DJANGO
        + """
from django.db import connections
import pasture

default, memory = connections["default"], connections["memory"]
for connection in (default, memory):
    connection.cursor().execute("create table kept (x)")
counts, problems = pasture.close_connections()
assert problems == (), problems
memory.cursor().execute("select * from kept")
print(counts["django_connections"], default.connection is None)
default.cursor().execute("select * from kept")
""",
        tmp_path / "database",
    )
    assert out == ["1", "True"]


def test_a_django_that_made_no_connection_makes_none_for_this():
    pytest.importorskip("django")
    out = run(
        DJANGO
        + """
from django.db import connections
import pasture

counts, problems = pasture.close_connections()
print(sorted(counts), problems, connections.all(initialized_only=True))
""",
        "unused",
    )
    assert out == ["[]", "()", "[]"]


def test_sqlalchemy_engines_give_up_their_connections(tmp_path):
    pytest.importorskip("sqlalchemy")
    out = run(
        """
        import sys
        import pasture
        from sqlalchemy import create_engine, text

        file = create_engine(f"sqlite:///{sys.argv[1]}")
        memory = create_engine("sqlite://")
        with file.connect(), memory.begin() as connection:
            connection.execute(text("create table kept (x)"))
        before = file.pool.checkedin()
        counts, problems = pasture.close_connections()
        assert problems == (), problems
        with memory.connect() as connection:
            connection.execute(text("select * from kept"))
        print(before, file.pool.checkedin(), counts["sqlalchemy_engines"])
        """,
        tmp_path / "database",
    )
    assert out == ["1", "0", "1"]
