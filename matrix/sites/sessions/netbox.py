"""An administrator logs in, makes regions, devices and addresses by API and by form, and deletes them."""

from matrix.sites.browser import Browser

TOKEN = {"Authorization": "Token 0123456789abcdef0123456789abcdef01234567"}


def session(browser: Browser) -> None:
    number = browser.round
    # A worker that has served its number of requests closes connections that are kept.
    browser.http.headers["Connection"] = "close"
    browser.get("/")
    browser.submit("/login/", {"username": "admin", "password": "wrong"})
    browser.submit("/login/", {"username": "admin", "password": "Secret-of-a-test-1"})
    browser.get("/")
    browser.many("/api/status/", headers=TOKEN)
    browser.submit("/dcim/sites/add/", {"name": f"Site {number}", "slug": f"site-{number}"})
    browser.submit("/dcim/sites/add/", {"name": f"Site {number}", "slug": f"site-{number}"})
    browser.many("/dcim/sites/")
    browser.http.cookies.clear()  # with them the API wants the form's token
    browser.http.headers.update(TOKEN)
    region = make(browser, "dcim/regions", name=f"Region {number}", slug=f"region-{number}")
    make(browser, "dcim/regions", name=f"Inner {number}", slug=f"inner-{number}", parent=region)
    site = make(
        browser, "dcim/sites", name=f"Place {number}", slug=f"place-{number}", region=region
    )
    maker = make(browser, "dcim/manufacturers", name=f"Maker {number}", slug=f"maker-{number}")
    kind = make(
        browser, "dcim/device-types", manufacturer=maker, model=f"M{number}", slug=f"m-{number}"
    )
    role = make(browser, "dcim/device-roles", name=f"Role {number}", slug=f"role-{number}")
    devices = [
        make(browser, "dcim/devices", name=f"d{number}-{n}", device_type=kind, role=role, site=site)
        for n in range(3)
    ]
    browser.many(f"/api/dcim/devices/{devices[0]}/", headers=TOKEN)
    prefix = make(browser, "ipam/prefixes", prefix=f"10.{number}.0.0/24")
    for _ in range(3):
        browser.post(f"/api/ipam/prefixes/{prefix}/available-ips/", json={})
    browser.http.patch(f"{browser.base}/api/dcim/devices/{devices[0]}/", json={"status": "failed"})
    browser.get(f"/api/dcim/devices/{devices[0]}/")
    browser.get(f"/dcim/devices/{devices[1]}/")
    browser.post("/graphql/", json={"query": "{ device_list { name status } }"})
    for device in devices:
        browser.delete(f"/api/dcim/devices/{device}/")
    browser.delete(f"/api/dcim/sites/{site}/")
    browser.get(f"/api/dcim/sites/{site}/")
    browser.get("/api/dcim/regions/?limit=5")
    browser.get("/api/core/object-changes/?limit=2")


def make(browser: Browser, kind: str, **fields: object) -> int:
    made = browser.post(f"/api/{kind}/", json=fields).json()
    found: int = made.get("id", 0)
    return found
