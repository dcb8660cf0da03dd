"""A client asks for content, and the processes that have registered themselves are counted."""

import subprocess

from matrix.sites.browser import Browser

REGISTERED = "SELECT app_type, count(*), count(DISTINCT name) FROM core_appstatus GROUP BY app_type"


def session(browser: Browser) -> None:
    browser.get("/pulp/content/")
    browser.many("/pulp/content/")
    browser.many("/pulp/content/nothing/of/it.txt")
    browser.get("/pulp/content/nothing/")
    browser.note("registered", 0, registered(browser), masked=True)


def registered(browser: Browser) -> str:
    """How many processes of each kind have a row, and how many of the names differ."""
    words = ["psql", "--no-psqlrc", "-At", "-c", REGISTERED, browser.variables["POSTGRES_URL"]]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
