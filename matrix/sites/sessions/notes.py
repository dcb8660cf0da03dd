"""Notes are written, read by many at once, counted and removed."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    browser.many("/health", 30)
    browser.many("/notes", 60)
    for number in range(8):
        browser.post("/notes", params={"text": f"note {number}"})
    browser.post("/notes", params={"text": ""})
    browser.get("/notes")
    browser.many("/notes", 60)
    browser.many("/count", 30)
    browser.get("/count")
    browser.many(f"/outside?url={browser.base}/health", 30)
    browser.delete("/notes")
    browser.get("/notes")
    browser.get("/missing")
