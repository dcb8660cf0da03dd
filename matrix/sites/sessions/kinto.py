"""An account, a bucket, a collection with records: made, listed, changed, in a batch, deleted."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    browser.get("/v1/")
    browser.get("/v1/buckets")
    name = f"ann{browser.round}"
    browser.put(f"/v1/accounts/{name}", json={"data": {"password": "secret"}})
    browser.http.auth = (name, "wrong")
    browser.get("/v1/buckets")
    browser.http.auth = (name, "secret")
    bucket = f"/v1/buckets/b{browser.round}"
    browser.put(bucket)
    browser.put(f"{bucket}/collections/c", json={"data": {"schema": {"type": "object"}}})
    records = f"{bucket}/collections/c/records"
    for number in range(8):
        browser.put(
            f"{records}/r{number}", json={"data": {"n": number, "name": f"record {number}"}}
        )
    browser.put(f"{records}/bad", data="{", headers={"Content-Type": "application/json"})
    browser.get(f"{records}?_sort=-n&_limit=3")
    browser.get(f"{records}?min_n=5")
    browser.get(f"{records}?nonsense=1")
    browser.many(records, auth=(name, "secret"))
    browser.many(f"{records}/r1", auth=(name, "secret"))
    browser.request("PATCH", f"{records}/r2", json={"data": {"name": "changed"}})
    browser.put(f"{records}/r2", json={"data": {}}, headers={"If-None-Match": "*"})
    requests = [
        {"method": "PUT", "path": f"{records}/x{n}", "body": {"data": {"n": n}}} for n in range(5)
    ]
    browser.post(
        "/v1/batch", json={"requests": [*requests, {"method": "GET", "path": "/v1/nothing"}]}
    )
    browser.delete(f"{records}/r3")
    browser.get(f"{records}/r3")
    browser.get(f"{bucket}/history?_limit=3")
    browser.delete(f"{records}?min_n=4")
    browser.get(records)
    browser.delete(bucket)
    browser.get(bucket)
    browser.get("/v1/__heartbeat__")
