"""Eight listeners in a room hear what one of them, and what a page, says."""

from contextlib import ExitStack

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from matrix.sites.browser import Browser

LISTENERS = 8


def session(browser: Browser) -> None:
    room = f"room{browser.round}"
    browser.get("/rooms")
    browser.post("/rooms", data={"name": room})
    browser.many("/rooms")
    address = browser.base.replace("http", "ws") + f"/room/{room}"
    with ExitStack() as stack:
        listeners = [stack.enter_context(connect(address)) for _ in range(LISTENERS)]
        for number, one in enumerate(listeners):
            one.send('{"text": "hello"}')
            heard = [listen(each) for each in listeners]
            browser.note(f"said by {number}", 0, ", ".join(heard))
        browser.post(f"/rooms/{room}/announce", data={"text": "news"})
        browser.note("announced", 0, ", ".join(listen(each) for each in listeners))
    browser.post(f"/rooms/{room}/remove")
    browser.get("/rooms")
    browser.many("/missing")


def listen(listener: object) -> str:
    try:
        return str(listener.recv(timeout=10))  # type: ignore[attr-defined]
    except (TimeoutError, WebSocketException) as error:
        return type(error).__name__
