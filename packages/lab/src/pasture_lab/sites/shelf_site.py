"""A Django site with a shelf of records in memory, for the experiments of 2017.

Each request builds some objects that it drops at its end, reads some records of a hot part of
the shelf, renders a page, remembers something in a cache of its worker, and leaves cyclic
garbage. What the collector does is up to LAB_GC.

Environment, all numbers:
    LAB_SHELF       records on the shelf
    LAB_HOT         of these, how many are ever read
    LAB_READ        records read a request
    LAB_TEMPORARY   objects that a request builds and drops, no garbage among them
    LAB_REMEMBER    objects that a request adds to its worker's cache
    LAB_MOST        requests of a worker after which its cache is full
    LAB_GARBAGE     objects of cyclic garbage that a request leaves
    LAB_GC          stock, disable, disable-undone, threshold-0, threshold-0-leave, explicit
    LAB_CODE        1: make code objects immortal before the fork
"""

from __future__ import annotations

import atexit
import gc
import os
from typing import Any

GC = os.environ.get("LAB_GC", "stock")

if GC == "threshold-0-leave":
    atexit.register(os._exit, 0)  # registered first, so that it runs last
if GC in ("disable", "disable-undone", "explicit"):
    gc.disable()
if GC == "disable-undone":
    import eager_library  # type: ignore[import-not-found]  # noqa: F401
if GC.startswith("threshold-0"):
    gc.set_threshold(0)

import django  # noqa: E402
from django.conf import settings  # noqa: E402

settings.configure(
    SECRET_KEY="published-with-pasture-never-use-this-key-for-a-site-of-your-own",
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.staticfiles",
    ],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    STATIC_URL="/static/",
    USE_TZ=True,
)
django.setup()

from django.contrib import admin  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.template import engines  # noqa: E402
from django.urls import path  # noqa: E402


def number(name: str, default: int) -> int:
    return int(os.environ.get(name, default))


class Record:
    """One thing on the shelf: an instance, a list and some strings."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.name = f"record number {key}"
        self.tags = [f"tag {key % 97}", key * 3]
        self.note = f"a few words about the record with number {key}"


HOT, READ = number("LAB_HOT", 15_000), number("LAB_READ", 20)
REMEMBER, MOST = number("LAB_REMEMBER", 0), number("LAB_MOST", 300)
TEMPORARY = number("LAB_TEMPORARY", 0)
GARBAGE, EXPLICIT_EVERY = number("LAB_GARBAGE", 0), 100

shelf = [Record(key) for key in range(number("LAB_SHELF", 150_000))]
cache: list[list[Any]] = []
requests = 0

page = engines["django"].from_string(
    "<html><body><h1>{{ title }}</h1><ul>"
    "{% for record in records %}<li>{{ record.name }}: {{ record.note }}"
    "{% for tag in record.tags %} {{ tag }}{% endfor %}</li>{% endfor %}"
    "</ul></body></html>"
)


def leave_garbage(count: int) -> None:
    """Objects that refer to each other, and that nothing else refers to."""
    for _ in range(count // 2):
        first: list[Any] = []
        first.append([first])


def front(request: HttpRequest) -> HttpResponse:
    global requests
    requests += 1
    temporary = [[i] for i in range(TEMPORARY)]
    start = requests * READ % HOT
    records = shelf[start : start + READ]
    if requests <= MOST:
        cache.extend([[requests, record] for record in range(REMEMBER)])
    leave_garbage(GARBAGE)
    if GC == "explicit" and requests % EXPLICIT_EVERY == 0:
        gc.collect()
    title = f"The shelf, {len(temporary)} times looked at"
    return HttpResponse(page.render({"title": title, "records": records}, request))


urlpatterns = [path("", front), path("admin/", admin.site.urls)]

application = get_wsgi_application()

if os.environ.get("LAB_CODE") == "1":
    import immortal_code  # type: ignore[import-not-found]

    print("immortal code objects:", immortal_code.make_immortal(), flush=True)
