"""An administrator makes organizations and datasets with files, searches, changes and deletes them."""

from pathlib import Path

from matrix.sites.browser import Browser
from matrix.sites.catalog import BUILD

API = "/api/3/action"


def session(browser: Browser) -> None:
    number = browser.round
    browser.get("/")
    browser.get("/dataset/")
    browser.submit("/user/login", {"login": "admin", "password": "wrong"})
    browser.submit("/user/login", {"login": "admin", "password": "secret-of-a-test"})
    browser.get("/dashboard/")
    browser.http.headers["Authorization"] = Path(BUILD / "ckan/data/token").read_text()
    act(browser, "organization_create", name=f"o{number}", title=f"Organization {number}")
    act(browser, "group_create", name=f"g{number}")
    for each in range(4):
        act(
            browser, "package_create", name=f"set-{number}-{each}", owner_org=f"o{number}",
            title=f"Rainfall {each}", notes="of *many* days", tags=[{"name": f"wet{each}"}],
        )  # fmt: skip
    act(browser, "package_create", name=f"set-{number}-0", owner_org=f"o{number}")
    browser.many(f"{API}/package_search?q=rainfall")
    browser.many("/dataset/")
    browser.many(f"/dataset/set-{number}-0")
    made = browser.post(
        f"{API}/resource_create",
        data={"package_id": f"set-{number}-0", "name": "days.csv", "format": "CSV"},
        files={"upload": ("days.csv", b"day,rain\n1,3\n2,5\n")},
    ).json()
    resource = made.get("result", {}).get("id", "none")
    browser.get(f"/dataset/set-{number}-0/resource/{resource}/download/days.csv")
    browser.get(f"/dataset/set-{number}-0/resource/{resource}")
    act(browser, "package_patch", id=f"set-{number}-1", title="Sunshine")
    browser.get(f"{API}/package_search?q=sunshine")
    act(browser, "package_delete", id=f"set-{number}-2")
    act(browser, "dataset_purge", id=f"set-{number}-2")
    browser.get(f"/dataset/set-{number}-2")
    browser.get(f"{API}/package_activity_list?id=set-{number}-1")
    browser.get(f"{API}/status_show")
    browser.get("/user/_logout")


def act(browser: Browser, action: str, **fields: object) -> None:
    browser.post(f"{API}/{action}", json=fields)
