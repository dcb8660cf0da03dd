"""An administrator logs in, and looks at lists, archives and users."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    browser.get("/archives/")
    browser.get("/accounts/login/")
    token = browser.http.cookies.get("csrftoken", "")
    for password in ("wrong", "secret-of-a-test"):
        form = {"login": "admin", "password": password, "csrfmiddlewaretoken": token}
        browser.post("/accounts/login/", data=form, headers={"Referer": browser.base})
    browser.get("/archives/")
    browser.get("/archives/search?q=text")
    browser.get("/admin/")
    browser.many("/archives/")
    browser.get("/user-profile/")
    browser.get("/mailman3/lists/")
    browser.get("/accounts/logout/")
