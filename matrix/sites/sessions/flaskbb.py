"""A user logs in, reads, opens a topic, replies and searches."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    browser.get("/")
    browser.get("/auth/login")
    browser.post("/auth/login", data={"login": "admin", "password": "wrong"})
    browser.post("/auth/login", data={"login": "admin", "password": "secret-of-a-test"})
    browser.get("/")
    browser.get("/forum/1")
    title = f"Topic of round {browser.round}"
    browser.post("/1/topic/new", data={"title": title, "content": "Some text.", "submit": "y"})
    browser.post("/topic/1/post/new", data={"content": "A reply.", "submit": "y"})
    browser.get("/topic/1")
    browser.many("/forum/1")
    browser.get("/memberlist")
    browser.get("/search?search_query=text")
    browser.get("/admin/")
    browser.get("/auth/logout")
