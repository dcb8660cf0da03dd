"""A Wagtail site, fetched with uv into the cache and filled for each run.

Owns what is installed where, and the site's few files. Nothing goes into this interpreter's
own environment: the packages lie in a folder of their own that the server's path names.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pasture.errors import NotMeasurable, ServerFailed
from pasture.trust import private_files
from pasture.warmup.requests import Request
from pasture_lab.engine.experiment import Bench
from pasture_lab.processes.program import environment, run_to_end

_PAGES = 60
_TOOL = Path(__file__).resolve().parents[5] / "tools" / "uv"
_START = "from wagtail.bin.wagtail import main; main()"

_SETTINGS = """\
from pastures.settings.base import *

DEBUG = False
SECRET_KEY = "published-with-pasture-never-use-this-key-for-a-site-of-your-own"
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
WAGTAILADMIN_BASE_URL = "http://127.0.0.1"
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
"""
_MODELS = """\
from wagtail.admin.panels import FieldPanel
from wagtail.fields import RichTextField
from wagtail.models import Page


class HomePage(Page):
    body = RichTextField(blank=True)
    content_panels = Page.content_panels + [FieldPanel("body")]
"""
_TEMPLATE = """\
{% extends "base.html" %}{% load wagtailcore_tags %}
{% block content %}<h1>{{ page.title }}</h1>{{ page.body|richtext }}
<ul>{% for child in page.get_children.live %}<li><a href="{% pageurl child %}">{{ child.title }}</a>
</li>{% endfor %}</ul>{% endblock %}
"""
_FILL = """\
import django; django.setup()
from home.models import HomePage
home = HomePage.objects.first()
for number in range({pages}):
    words = " ".join("Sheep %d grazes on common %d." % (i, number) for i in range(60))
    home.add_child(instance=HomePage(
        title="Page %d" % number, slug="page-%d" % number,
        body="<h2>Herd %d</h2><p>%s</p>" % (number, words)))
"""


@dataclass(frozen=True, slots=True)
class WagtailSite:
    """The place of the site and its answers."""

    folder: Path
    env: Mapping[str, str]
    urls: tuple[Request, ...]


def make(bench: Bench) -> WagtailSite:
    """Fetch Wagtail if need be, and make a site with its pages in the part's folder.

    Raises:
        NotMeasurable: it cannot be fetched, or does not run here.
    """
    packages = _fetched(bench)
    folder = bench.directory / "wagtail"
    folder.mkdir()
    variables = {"PYTHONPATH": str(packages), "DJANGO_SETTINGS_MODULE": "pastures.settings.lab"}
    env = environment(variables)

    def run(*arguments: str) -> None:
        command = [sys.executable, *arguments]
        run_to_end(bench, command, bench.log("wagtail"), env=env, cwd=folder)

    try:
        run("-c", _START, "start", "pastures", str(folder))
        (folder / "pastures" / "settings" / "lab.py").write_text(_SETTINGS)
        (folder / "home" / "models.py").write_text(_MODELS)
        templates = folder / "home" / "templates" / "home"
        (templates / "home_page.html").write_text(_TEMPLATE)
        run("manage.py", "makemigrations", "home")
        run("manage.py", "migrate", "--verbosity", "0")
        run("-c", _FILL.format(pages=_PAGES))
    except ServerFailed as error:
        raise NotMeasurable(f"the Wagtail site cannot be made: {error.message}") from None
    pages = (f"/page-{number}/" for number in range(_PAGES))
    paths = ("/", *pages, "/search/?query=herd", "/admin/login/")
    return WagtailSite(folder, variables, tuple(Request("GET", path) for path in paths))


def _fetched(bench: Bench) -> Path:
    """The folder with Wagtail and what it needs, for this version of Python."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pasture" / "lab"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    packages = cache / f"wagtail-{version}"
    if packages.exists():
        return packages
    try:
        private_files.make_folder(cache)
    except OSError as error:
        raise NotMeasurable(
            f"packages cannot be kept: {error}", hint="set XDG_CACHE_HOME"
        ) from None
    partial = cache / f"wagtail-{version}.{os.getpid()}.partial"
    command = [
        _uv(), "pip", "install", "--quiet", "--python", sys.executable,
        "--target", str(partial), "wagtail",
    ]  # fmt: skip
    try:
        run_to_end(bench, command, bench.log("uv"), env=dict(os.environ))
        partial.rename(packages)
    except ServerFailed as error:
        raise NotMeasurable(f"Wagtail cannot be fetched: {error.message}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return packages


def _uv() -> str:
    """uv on the PATH, else the repository's.

    Raises:
        NotMeasurable: there is neither.
    """
    found = shutil.which("uv") or (str(_TOOL) if _TOOL.exists() else None)
    if found is None:
        raise NotMeasurable("uv is not installed", hint="pip install uv")
    return found
