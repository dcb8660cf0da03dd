"""A program whose transaction, temporary table and session go on while a pool works."""

import json
import multiprocessing
import sys

import django
from django.conf import settings
from django.db import connection, transaction


def run(statement):
    with connection.cursor() as cursor:
        return cursor.execute(statement).fetchall()


def count(_):
    return run("select count(*) from sale")[0][0]


if __name__ == "__main__":
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}
    settings.configure(DATABASES={"default": database})
    django.setup()
    run("create table sale (amount integer)")
    run("create temporary table basket (amount integer)")
    with transaction.atomic():
        run("insert into sale values (1)")
        with multiprocessing.get_context("fork").Pool(2) as pool:
            children = pool.map(count, range(2), chunksize=1)
        run("insert into sale values (2)")
    print(json.dumps({"rows": count(0), "basket": run("select * from basket"), "seen": children}))
