"""An item is written, changed, compared, renamed and destroyed."""

from matrix.sites.browser import Browser


def write(browser: Browser, name: str, text: str) -> None:
    path = f"/+modify/{name}?contenttype=text%2Fx.moin.wiki%3Bcharset%3Dutf-8&itemtype=default&template="
    fields = {"content_form_data_text": text, "comment": "c"}
    browser.submit(path, fields)


def session(browser: Browser) -> None:
    browser.get("/")
    browser.get("/+index/")
    name = f"Page{browser.round}"
    browser.get(f"/{name}")
    write(browser, name, "= Title =\n * item\n")
    browser.get(f"/{name}")
    write(browser, name, "= Title =\n * other\n")
    browser.get(f"/+history/{name}")
    browser.get(f"/+highlight/{name}")
    browser.many(f"/{name}")
    browser.submit(f"/+rename/{name}", {"target": f"{name}b", "comment": "c"})
    browser.get(f"/{name}b")
    browser.submit(f"/+delete/{name}b", {"comment": "c"})
    browser.get(f"/{name}b")
    browser.get("/+search?q=item")
    browser.submit(
        "/+register",
        {
            "register_username": f"ann{browser.round}",
            "register_password1": "Very-secret-1",
            "register_password2": "Very-secret-1",
            "register_email": f"a{browser.round}@example.com",
        },
    )
    browser.submit(
        "/+login", {"login_username": f"ann{browser.round}", "login_password": "Very-secret-1"}
    )
    browser.get("/+usersettings")
    browser.get("/+missing/x")
