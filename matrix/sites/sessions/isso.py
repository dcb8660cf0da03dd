"""Readers comment, reply, vote, change and take back; the owner looks at it."""

from matrix.sites.browser import Browser

HEADERS = {"Origin": "http://localhost", "Content-Type": "application/json"}


def session(browser: Browser) -> None:
    page = f"/page{browser.round}/"
    first = browser.post(
        f"/new?uri={page}",
        json={"text": "A *first* comment.", "author": "Ann", "title": "Page"},
        headers=HEADERS,
    )
    number = first.json()["id"]
    reply = {"text": "A reply.", "parent": number, "title": "Page"}
    second = browser.post(f"/new?uri={page}", json=reply, headers=HEADERS)
    browser.post(f"/new?uri={page}", json={"text": "?"}, headers=HEADERS)
    browser.post(f"/new?uri={page}", data="no JSON", headers=HEADERS)
    browser.get(f"/?uri={page}")
    browser.put(f"/id/{number}", json={"text": "Changed."}, headers=HEADERS)
    browser.post(f"/id/{number}/like", headers=HEADERS)
    browser.post("/count", json=[page, "/other/"], headers=HEADERS)
    browser.many(f"/?uri={page}")
    browser.delete(f"/id/{second.json()['id']}", headers=HEADERS)
    browser.get(f"/?uri={page}")
    browser.get("/feed?uri=" + page)
    browser.get("/login/")
    browser.post("/login/", data={"password": "wrong"})
    browser.post("/login/", data={"password": "secret"})
    browser.get("/admin/")
