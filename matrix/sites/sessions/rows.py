"""Rows are read by many at once, written, and removed; a job writes one; a page fails."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    browser.many("/rows")
    for number in range(6):
        browser.post("/rows", params={"text": f"row {number}"})
    browser.post("/jobs", params={"text": "of a job"})
    browser.until(
        "the job is done",
        lambda: "of a job" in browser.http.get(f"{browser.base}/rows").json(),
    )
    browser.get("/rows")
    browser.many("/rows")
    browser.many("/fails", 8)
    browser.delete("/rows")
    browser.get("/rows")
    browser.get("/missing")
    browser.post("/rows", params={"text": f"left of round {browser.round}"})
