"""Rows are read, searched, inserted, changed and deleted; a table is made and dropped."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    browser.get("/")
    browser.get("/data/notes?_sort_desc=id&_size=5")
    browser.get("/data/notes.json?title__contains=note+1&_shape=array")
    browser.get("/data.json?sql=select+count(*)+from+notes")
    browser.get("/data/-/query.json?sql=select+count(*)+from+notes")
    browser.get("/data/-/query.json?sql=select+nonsense")
    row = {"title": f"new {browser.round}", "body": "body"}
    browser.post("/data/notes/-/insert", json={"row": row, "return": True})
    browser.post("/data/notes/-/insert", json={"row": {"nonsense": 1}})
    browser.post("/data/notes/7/-/update", json={"update": {"title": "changed"}})
    browser.get("/data/notes/7.json")
    browser.many("/data/notes/7.json")
    browser.many("/data/notes.json?_size=100")
    browser.post(f"/data/notes/{10 + browser.round}/-/delete", json={})
    table = f"made{browser.round}"
    browser.post("/data/-/create", json={"table": table, "rows": [{"a": 1}, {"a": 2}], "pk": "a"})
    browser.get(f"/data/{table}.json?_shape=array")
    browser.post(f"/data/{table}/-/drop", json={"confirm": True})
    browser.get("/-/versions.json")
    browser.get("/-/threads.json")
    browser.get("/data/missing")
