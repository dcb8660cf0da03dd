"""An editor logs in, makes, changes, publishes and deletes a page, and uploads a picture."""

import struct
import zlib

from matrix.sites.browser import Browser


def picture(side: int = 64) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    rows = b"".join(b"\0" + bytes((x * 3, 90, 120)) * side for x in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def session(browser: Browser) -> None:
    browser.get("/")
    browser.many("/page-3/")
    browser.get("/admin/")
    browser.submit("/admin/login/?next=/admin/", {"username": "editor", "password": "wrong"})
    browser.submit(
        "/admin/login/?next=/admin/", {"username": "editor", "password": "secret-of-a-test"}
    )
    browser.get("/admin/")
    name = f"made {browser.round}"
    fields = {"title": name, "slug": f"made-{browser.round}", "action-publish": "action-publish"}
    made = browser.submit("/admin/pages/add/home/homepage/3/", fields)
    browser.get(f"/made-{browser.round}/")
    listing = browser.get("/admin/pages/3/?ordering=-latest_revision_created_at")
    browser.note("made", made.status_code, str(name in listing.text))
    browser.submit(
        "/admin/pages/4/edit/",
        {"title": f"changed {browser.round}", "action-publish": "action-publish"},
    )
    browser.get("/page-0/")
    browser.submit("/admin/pages/5/edit/", {"title": "", "action-publish": "action-publish"})
    browser.submit(
        "/admin/images/add/",
        {"title": "picture"},
        files={"file": ("p.png", picture(), "image/png")},
    )
    browser.submit(
        "/admin/images/add/", {"title": "none"}, files={"file": ("p.png", b"no", "image/png")}
    )
    browser.get("/admin/images/")
    browser.submit(f"/admin/pages/{5 + browser.round}/delete/", {})
    browser.get(f"/page-{1 + browser.round}/")
    browser.get("/search/?query=changed")
    browser.many("/admin/pages/3/")
    browser.get("/admin/reports/site-history/")
    browser.get("/missing/")
    browser.submit("/admin/account/", {"name_email-first_name": f"E{browser.round}"})
