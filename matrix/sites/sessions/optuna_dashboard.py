"""Studies are made, noted upon, asked for, renamed and deleted."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    name = f"study {browser.round}"
    made = browser.post("/api/studies", json={"study_name": name, "directions": ["minimize"]})
    browser.post("/api/studies", json={"study_name": name, "directions": ["minimize"]})
    browser.post("/api/studies", json={"study_name": "x", "directions": ["sideways"]})
    number = made.json()["study_summary"]["study_id"]
    browser.get("/api/studies")
    browser.get("/api/studies/1?after=0")
    browser.get("/api/studies/1/param_importances")
    browser.put(f"/api/studies/{number}/note", json={"body": "a note", "version": 1})
    browser.put(f"/api/studies/{number}/note", json={"body": "too late", "version": 1})
    browser.get(f"/api/studies/{number}?after=0")
    browser.many("/api/studies")
    browser.many("/api/studies/1?after=0")
    renamed = browser.post(f"/api/studies/{number}/rename", json={"study_name": name + " b"})
    if renamed.status_code == 201:
        number = renamed.json()["study_id"]
    browser.delete(f"/api/studies/{number}")
    browser.get(f"/api/studies/{number}?after=0")
    browser.get("/dashboard/studies/1")
