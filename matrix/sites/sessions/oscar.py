"""A customer registers and buys; the manager looks at the order and makes a product."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    browser.get("/catalogue/")
    browser.many("/catalogue/book-3_4/", 60)
    browser.get("/catalogue/category/books_1/")
    browser.get("/search/?q=Book")
    mail = f"c{browser.round}@example.com"
    browser.submit(
        "/accounts/login/",
        {
            "registration-email": mail,
            "registration-password1": "Very-secret-1",
            "registration-password2": "Very-secret-1",
            "registration_submit": "1",
        },
    )
    browser.get("/accounts/")
    browser.submit("/catalogue/book-3_4/", {"quantity": "2"})
    browser.submit("/catalogue/book-5_6/", {"quantity": "1"})
    browser.submit("/catalogue/book-5_6/", {"quantity": "none"})
    browser.get("/basket/")
    browser.get("/checkout/")
    address = {
        "first_name": "A",
        "last_name": "B",
        "line1": "Street 1",
        "line4": "Town",
        "postcode": "12345",
        "country": "DE",
    }
    browser.submit("/checkout/shipping-address/", address)
    browser.get("/checkout/shipping-method/")
    browser.get("/checkout/payment-method/")
    browser.get("/checkout/preview/")
    browser.submit("/checkout/preview/", {"action": "place_order"})
    browser.get("/checkout/thank-you/")
    browser.get("/accounts/orders/")
    browser.submit(
        "/catalogue/book-3_4/reviews/add/", {"title": "Good", "score": "5", "body": "Yes"}
    )
    browser.submit(
        "/accounts/login/",
        {"login-username": mail, "login-password": "Very-secret-1", "login_submit": "1"},
    )
    browser.get("/accounts/logout/")
    browser.http.cookies.clear()
    browser.submit(
        "/accounts/login/",
        {"login-username": "m@example.com", "login-password": "wrong", "login_submit": "1"},
    )
    browser.submit(
        "/accounts/login/",
        {"login-username": "m@example.com", "login-password": "Very-secret-1", "login_submit": "1"},
    )
    browser.get("/dashboard/")
    browser.get("/dashboard/orders/")
    browser.submit(
        "/dashboard/catalogue/products/create/book/",
        {"title": f"Made {browser.round}", "upc": f"u{browser.round}"},
    )
    browser.get("/dashboard/catalogue/?title=Made")
    browser.submit(f"/dashboard/catalogue/products/{10 + browser.round}/delete/", {})
    browser.get("/dashboard/reports/?report_type=order_report&download=1")
    browser.get("/catalogue/missing_99/")
