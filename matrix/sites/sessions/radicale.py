"""A user makes a calendar, fills it, searches it and throws it away."""

from matrix.sites.browser import Browser

CALENDAR = """<?xml version="1.0"?><C:mkcalendar xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">
<D:set><D:prop><D:displayname>work</D:displayname></D:prop></D:set></C:mkcalendar>"""
FIND = """<?xml version="1.0"?><C:calendar-query xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">
<D:prop><D:getetag/><C:calendar-data/></D:prop><C:filter><C:comp-filter name="VCALENDAR">
<C:comp-filter name="VEVENT"/></C:comp-filter></C:filter></C:calendar-query>"""


def event(number: int) -> str:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:test", "BEGIN:VEVENT", f"UID:event{number}"]
    lines += ["DTSTAMP:20260101T100000Z", f"DTSTART:202601{number + 1:02}T100000Z"]
    lines += [f"SUMMARY:meeting {number}", "RRULE:FREQ=WEEKLY;COUNT=5", "END:VEVENT"]
    return "\r\n".join([*lines, "END:VCALENDAR", ""])


def session(browser: Browser) -> None:
    browser.get("/ann/")
    browser.http.auth = ("ann", "wrong")
    browser.request("PROPFIND", "/ann/", headers={"Depth": "1"})
    browser.http.auth = ("ann", "secret")
    browser.request("PROPFIND", "/ann/", headers={"Depth": "1"})
    folder = f"/ann/work{browser.round}"
    browser.request("MKCALENDAR", f"{folder}/", data=CALENDAR)
    for number in range(6):
        browser.put(f"{folder}/e{number}.ics", data=event(number))
    browser.put(f"{folder}/broken.ics", data="no calendar")
    browser.many(f"{folder}/e1.ics", auth=("ann", "secret"))
    browser.request("REPORT", f"{folder}/", data=FIND, headers={"Depth": "1"})
    browser.delete(f"{folder}/e3.ics")
    browser.get(f"{folder}/e3.ics")
    browser.http.auth = ("bob", "secret")
    browser.get(f"{folder}/e1.ics")
    browser.http.auth = ("ann", "secret")
    browser.request(
        "MOVE", f"{folder}/e1.ics", headers={"Destination": f"{browser.base}{folder}/m.ics"}
    )
    browser.request("PROPFIND", f"{folder}/", headers={"Depth": "1"})
    if browser.round == 2:
        browser.delete(f"{folder}/")
    browser.request("PROPFIND", "/ann/", headers={"Depth": "1"})
