"""The demonstration site: its fill command, and each page of the load.

Every process has a database of its own in a temporary folder. Pages are asked for
through the WSGI application, by tests/programs/visit_demo_site.py.
"""

import hashlib
import html
import json
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from running import completed

REPOSITORY = Path(__file__).resolve().parents[2]
DEMO = REPOSITORY / "demo"
VISIT = REPOSITORY / "tests" / "programs" / "visit_demo_site.py"

CSRF_FIELD = re.compile(r'name="csrfmiddlewaretoken" value="\w{64}"')

CHANGE_AND_LEAVE_THE_LOG = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA journal_mode=WAL")
with connection:
    connection.execute("DELETE FROM catalog_review")
os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class Filled:
    """A filled database with the load that was written beside it."""

    database: Path

    @property
    def headers_file(self) -> Path:
        return self.database.with_name("headers.txt")

    @property
    def paths(self) -> list[str]:
        lines = self.database.with_name("urls.txt").read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    def digest(self) -> str:
        """Of all rows but the times at which migrations were applied."""
        with sqlite3.connect(self.database) as connection:
            statements = list(connection.iterdump())
        rows = [each for each in statements if '"django_migrations"' not in each]
        return hashlib.sha256("\n".join(rows).encode()).hexdigest()

    def value(self, query: str, *parameters: str) -> str:
        with sqlite3.connect(self.database) as connection:
            (value,) = connection.execute(query, parameters).fetchone()
        return str(value)


def run(arguments: Sequence[str | Path], database: Path, stdin: str = "", seed: int = 0) -> str:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "meadow.settings",
        "MEADOW_DB": str(database),
        "PYTHONHASHSEED": str(seed),
        "PYTHONPATH": str(DEMO),
    }
    done = completed([sys.executable, *arguments], env=environment, input=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fill(database: Path, seed: int) -> Filled:
    run([DEMO / "manage.py", "fill"], database, seed=seed)
    return Filled(database)


def visit(site: Filled, headers_file: Path, paths: Sequence[str], seed: int = 0) -> dict:
    """Visits `paths` in a new process: a dict of path to (status, body)."""
    lines = run([VISIT, headers_file], site.database, stdin="\n".join(paths), seed=seed)
    answers = map(json.loads, lines.splitlines())
    return {each["path"]: (each["status"], each["body"]) for each in answers}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return fill(tmp_path_factory.mktemp("meadow") / "meadow.sqlite3", seed=1)


@pytest.fixture(scope="module")
def answers(site: Filled) -> dict[str, tuple[int, str]]:
    return visit(site, site.headers_file, site.paths, seed=1)


NAMED = "SELECT name FROM {} WHERE slug = ?"
TITLED = "SELECT title FROM {} WHERE slug = ?"
BY_KEY = "SELECT {} FROM {} WHERE id = ?"
LISTED_PRODUCTS = (
    "SELECT count(*) FROM catalog_product p JOIN catalog_farm f ON f.id = p.farm_id "
    "WHERE p.is_listed AND f.is_trading"
)
ALL_PRODUCTS = "SELECT count(*) FROM catalog_product"

# Each path of the load matches one pattern, and its page holds the text that goes with it.
# `{}` in a text stands for the result of the query, whose parameter is the pattern's group.
CONTENT: list[tuple[str, str, str | None]] = [
    (r"/", "<h2>New on the market</h2>", None),
    (r"/about/", "Meadow belongs to the farms that sell on it.", None),
    (r"/contact/", '<textarea name="message"', None),
    (r"/search/\?q=carrots", "<h1>Search: carrots</h1>", None),
    (r"/sitemap\.xml", "<loc>http://meadow.example/farms/", None),
    (r"/static/meadow/site\.css", ".site-header {{", None),
    (r"/products/", '<p class="muted">{} products</p>', LISTED_PRODUCTS),
    (r"/products/\?page=3", '<b aria-current="page">3</b>', None),
    (r"/products/\?q=apple&order=-price", "Apple and Cider cake</a>", None),
    (r"/products/\?category=vegetables&.*", '<option value="9" selected>', None),
    (r"/products/feed/", "<title>New on Meadow</title>", None),
    (r"/products/([a-z0-9-]+)/", "<h1>{}</h1>", NAMED.format("catalog_product")),
    (r"/products/([a-z0-9-]+)/review/", "review of {}</h1>", NAMED.format("catalog_product")),
    (r"/categories/([a-z-]+)/(?:\?.*)?", "<h1>{}</h1>", NAMED.format("catalog_category")),
    (r"/farms/(?:\?.*)?", "<h1>Farms</h1>", None),
    (r"/farms/([a-z-]+)/", "<h1>{}</h1>", NAMED.format("catalog_farm")),
    (r"/regions/([a-z-]+)/", "<h1>{}</h1>", NAMED.format("catalog_region")),
    (r"/journal/(?:\?.*)?", "<h1>Journal</h1>", None),
    (r"/journal/atom/", 'xmlns="http://www.w3.org/2005/Atom"', None),
    (r"/journal/tags/([a-z-]+)/", "<h1>Journal: {}</h1>", NAMED.format("taggit_tag")),
    (r"/journal/([a-z0-9-]+)/", "<h1>{}</h1>", TITLED.format("journal_article")),
    (r"/recipes/", "<h1>Recipes</h1>", None),
    (r"/recipes/([a-z0-9-]+)/", "<h1>{}</h1>", TITLED.format("journal_recipe")),
    (r"/events/", "<h2>March 2026</h2>", None),
    (r"/events/([a-z0-9-]+)/", "<h1>{}</h1>", TITLED.format("journal_event")),
    (r"/basket/", "To the checkout", None),
    (r"/checkout/", '<select name="collection_point"', None),
    (r"/orders/", "<h1>My orders</h1>", None),
    (r"/orders/(M2025-\d{5})/", "<h1>Order M2025-", None),
    (r"/boxes/([a-z-]+)/", "<h1>{}</h1>", NAMED.format("orders_box")),
    (r"/de/", "<h2>Neu auf dem Markt</h2>", None),
    (r"/de/products/\?page=2", "<h1>Alle Erzeugnisse</h1>", None),
    (r"/de/boxes/", "<h1>Jede Woche eine Kiste</h1>", None),
    (r"/api/products/\?page=2", '"count":{},', LISTED_PRODUCTS),
    (r"/api/products/\?search=honey&ordering=price", 'honey","slug":', None),
    (r"/api/products/([a-z0-9-]+)/", '"name":"{}"', NAMED.format("catalog_product")),
    (r"/api/farms/", '"certifications":[', None),
    (r"/api/farms/([a-z-]+)/", '"name":"{}"', NAMED.format("catalog_farm")),
    (r"/api/categories/", '"slug":"blue-cheese","parent":"cheese","level":2', None),
    (r"/api/recipes/", '"steps":[{{"position":1', None),
    (r"/api/orders/\?status=collected", '"status":"collected"', None),
    (r"/admin/", "Meadow office", None),
    (r"/admin/catalog/product/", "{} products", ALL_PRODUCTS),
    (r"/admin/catalog/product/\?q=cheddar&.*", 'value="cheddar"', None),
    (r"/admin/catalog/product/(\d+)/change/", ">{}</", BY_KEY.format("name", "catalog_product")),
    (r"/admin/catalog/farm/", "Select farm to change", None),
    (r"/admin/catalog/farm/(\d+)/change/", ">{}</", BY_KEY.format("name", "catalog_farm")),
    (r"/admin/catalog/category/", "Blue cheese", None),
    (r"/admin/orders/order/\?status__exact=placed", "M2025-", None),
    (r"/admin/orders/order/(\d+)/change/", ">{}</", BY_KEY.format("number", "orders_order")),
    (r"/admin/journal/article/(\d+)/change/", ">{}</", BY_KEY.format("title", "journal_article")),
    (r"/admin/auth/user/", "{} users", "SELECT count(*) FROM auth_user"),
]


def expected_text(site: Filled, path: str) -> tuple[str, str]:
    """The pattern that `path` matches, and what its page must hold."""
    for pattern, text, query in CONTENT:
        if match := re.fullmatch(pattern, path):
            value = site.value(query, *match.groups()) if query else ""
            return pattern, text.format(value)
    pytest.fail(f"no content is expected of {path}: add it to CONTENT")


def test_every_page_of_the_load_answers_with_its_content(
    site: Filled, answers: dict[str, tuple[int, str]]
) -> None:
    assert list(answers) == site.paths
    problems = []
    seen = set()
    for path, (status, body) in answers.items():
        pattern, text = expected_text(site, path)
        seen.add(pattern)
        if status != 200:
            problems.append(f"{path}: status {status}")
        elif text not in html.unescape(body):
            problems.append(f"{path}: {text!r} is not there")
    assert problems == []
    assert seen == {pattern for pattern, _, _ in CONTENT}


@pytest.mark.once
def test_the_load_has_thirty_to_sixty_distinct_paths(site: Filled) -> None:
    assert 30 <= len(site.paths) <= 60
    assert len(set(site.paths)) == len(site.paths)


@pytest.mark.once
def test_two_processes_answer_alike_but_for_csrf_tokens(
    site: Filled, answers: dict[str, tuple[int, str]]
) -> None:
    others = visit(site, site.headers_file, site.paths, seed=2)
    differing = [
        path
        for path, (_, body) in answers.items()
        if CSRF_FIELD.sub("", body) != CSRF_FIELD.sub("", others[path][1])
    ]
    assert differing == []


@pytest.mark.once
def test_it_is_the_session_that_opens_the_office(site: Filled, tmp_path: Path) -> None:
    no_headers = tmp_path / "headers.txt"
    no_headers.touch()
    private = ["/admin/", "/admin/catalog/product/", "/orders/"]
    statuses = {path: status for path, (status, _) in visit(site, no_headers, private).items()}
    assert statuses == dict.fromkeys(private, 302)


@pytest.mark.once
def test_fill_makes_the_same_rows_over_what_a_killed_server_left(
    site: Filled, tmp_path: Path
) -> None:
    again = Filled(tmp_path / "meadow.sqlite3")
    shutil.copy(site.database, again.database)
    run(["-c", CHANGE_AND_LEAVE_THE_LOG, again.database], again.database)
    assert again.database.with_name("meadow.sqlite3-wal").stat().st_size > 0

    fill(again.database, seed=2)

    assert again.digest() == site.digest()
    assert again.paths == site.paths
    assert again.headers_file.read_bytes() == site.headers_file.read_bytes()


@pytest.mark.once
def test_the_migrations_make_what_the_models_say(site: Filled) -> None:
    output = run([DEMO / "manage.py", "makemigrations", "--check", "--dry-run"], site.database)
    assert "No changes detected" in output


@pytest.mark.once
def test_the_site_passes_its_own_tests(site: Filled) -> None:
    run([DEMO / "manage.py", "test", "meadow"], site.database)
