"""Tickets are opened, changed and closed; a page of the wiki is written, changed and deleted."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    browser.get("/")
    browser.get("/wiki")
    page = f"/wiki/Page{browser.round}"
    browser.submit(
        f"{page}?action=edit", {"text": "= Title =\n * item\n", "comment": "c", "save": "1"}
    )
    browser.get(page)
    browser.get(f"{page}?action=history")
    browser.many("/wiki/TracGuide")
    for number in range(3):
        fields = {"field_summary": f"ticket {number}", "field_description": "d", "submit": "1"}
        browser.submit("/newticket", fields)
    number = 3 * browser.round
    browser.get(f"/ticket/{number}")
    browser.submit(
        f"/ticket/{number}", {"comment": "a comment", "action": "resolve", "submit": "1"}
    )
    browser.get(f"/ticket/{number}")
    browser.get("/query?status=!closed")
    browser.get("/report/1")
    browser.get("/report/1?format=csv")
    browser.submit(
        f"/attachment/ticket/{number}/?action=new",
        {"description": "d"},
        files={"attachment": ("a.txt", b"text" * 9000)},
    )
    browser.get(f"/attachment/ticket/{number}/a.txt")
    browser.get("/search?q=ticket")
    browser.submit(f"{page}?action=delete", {})
    browser.get(page)
    browser.get("/timeline")
    browser.get("/prefs")
    browser.get("/ticket/999")
    browser.get("/admin")
