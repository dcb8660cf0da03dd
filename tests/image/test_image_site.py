"""Programs of the bundled site find it loaded: they print, log and end as by `python`."""

from __future__ import annotations

from pathlib import Path

import pytest
from images import Images

pytestmark = [pytest.mark.once, pytest.mark.integration]

SITE = Path(__file__).resolve().parents[2] / "demo"
MANAGE = str(SITE / "manage.py")

PRELOAD = (
    "meadow.wsgi,meadow.celery,meadow.orders.tasks,celery.__main__,celery.bin.celery,"
    "celery.apps.worker,celery.apps.beat,celery.concurrency.prefork,celery.contrib.django.task,"
    "gunicorn.app.wsgiapp,gunicorn.workers.sync,django.core.management"
)

SIGNALS = (
    "import signal; print([str(signal.getsignal(n)) for n in range(1, 65) if n not in (32, 33)])"
)
SET_UP_AGAIN = """\
import logging, django
django.setup(); django.setup()
from django.apps import apps
print(apps.ready, len(list(apps.get_app_configs())), len(apps.get_models()))
loggers = {name: logging.getLogger(name) for name in ("", "django", "django.server")}
print([(name, one.level, one.propagate, [str(type(h)) for h in one.handlers])
    for name, one in loggers.items()])
logging.getLogger("django").warning("once")
"""
CONNECTIONS = """\
import os, threading, django
django.setup()
from django.db import connections
print([one.connection for one in connections.all(initialized_only=True)])
print(threading.active_count(), [n for n in range(3, 900) if os.path.exists(f"/proc/self/fd/{n}")])
"""
CELERY = """\
from celery import current_app
from meadow.celery import app
app.loader.import_default_modules()  # out of the image tasks that are preloaded are there before
print(app.main, current_app.main, app.conf.broker_url, app.conf.timezone)
print(sorted(name for name in app.tasks if name.startswith("meadow")))
print([str(type(one)) for one in app._fixups], len(app.user_options["worker"]))
"""
ARGUMENTS = """\
import atexit, sys, warnings
print(sys.argv, sys.path[0], sys.modules["__main__"].__dict__.get("__file__"))
atexit.register(print, "at exit")
warnings.warn("one of the program's", UserWarning)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Images:
    found = Images(tmp_path_factory.mktemp("site"))
    found.environ |= {
        "PYTHONPATH": str(SITE),
        "PYTHONHASHSEED": "0",  # programs print sets
        "DJANGO_SETTINGS_MODULE": "meadow.settings",
        "MEADOW_BROKER": "memory://",
        "MEADOW_DB": f"{found.folder}/db.sqlite3",
    }
    names = ("DJANGO_SETTINGS_MODULE", "MEADOW_BROKER", "MEADOW_DB")
    variables = [f"--env={name}={found.environ[name]}" for name in names]
    found.built("--preload", PRELOAD, "--allow=kernel", *variables)
    assert found.why() == ""
    return found


@pytest.mark.parametrize(
    "words",
    [
        ("-c", SIGNALS),
        ("-c", SET_UP_AGAIN),
        ("-c", CONNECTIONS),
        ("-c", CELERY),
        ("-c", ARGUMENTS, "a", "--b"),
        (MANAGE, "check"),
        (MANAGE, "migrate", "--check", "-v", "0"),
        (MANAGE, "shell", "-c", "from meadow.orders.models import Order; print(Order.__module__)"),
        (MANAGE, "diffsettings"),
        (MANAGE, "nosuch"),
        ("-m", "celery", "-A", "meadow.celery", "report"),
        ("-m", "celery", "-A", "meadow.celery", "worker", "--pool=nosuch"),
        ("-m", "celery", "-A", "nosuch.app", "beat"),
        ("-m", "gunicorn", "--check-config", "meadow.wsgi"),
        ("-m", "gunicorn", "--check-config", "meadow.nosuch"),
    ],
    ids=lambda words: " ".join(words).partition("\n")[0].removeprefix(f"{SITE}/")[:40],
)
def test_a_program_of_the_site_does_what_it_does_by_python(
    site: Images, words: tuple[str, ...]
) -> None:
    out, by = site.run(*words, cwd=site.folder), site.python(*words, cwd=site.folder)
    assert out == by
