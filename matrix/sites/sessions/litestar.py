"""Notes are added, listed and removed, some of them wrongly."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    made = browser.post("/notes", json={"title": f"Note {browser.round}", "text": "Some."})
    browser.post("/notes", json={"title": "without a text"})
    browser.post("/notes", data="no JSON")
    browser.get("/notes")
    browser.many("/notes")
    browser.delete(f"/notes/{made.json()['id']}")
    browser.delete(f"/notes/{made.json()['id']}")
    browser.get("/schema/openapi.json")
    browser.get("/nowhere")
