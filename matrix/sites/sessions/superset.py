"""An administrator logs in, makes a database, a dataset, a chart and a dashboard, and deletes them."""

from matrix.sites.browser import Browser

API = "/api/v1"


def session(browser: Browser) -> None:
    browser.get(f"{API}/me/")
    browser.submit("/login/", {"username": "admin", "password": "wrong"})
    login = {"username": "admin", "password": "admin", "provider": "db", "refresh": True}
    token = browser.post(f"{API}/security/login", json=login).json()["access_token"]
    browser.http.headers["Authorization"] = f"Bearer {token}"
    token = {"Authorization": f"Bearer {token}"}
    browser.get(f"{API}/me/")
    browser.many(f"{API}/chart/", headers=token)
    browser.many(f"{API}/menu/", headers=token)
    made = {
        "database_name": f"d{browser.round}",
        "sqlalchemy_uri": "postgresql://u@127.0.0.1:9/none",
    }
    database = browser.post(f"{API}/database/", json=made)
    browser.post(
        f"{API}/database/", json={"database_name": "x", "sqlalchemy_uri": "sqlite:///:memory:"}
    )
    board = browser.post(f"{API}/dashboard/", json={"dashboard_title": f"board {browser.round}"})
    number = board.json()["id"]
    browser.put(f"{API}/dashboard/{number}", json={"dashboard_title": f"changed {browser.round}"})
    browser.get(f"{API}/dashboard/{number}")
    browser.get(f"{API}/dashboard/?q=(order_column:id,order_direction:desc)")
    browser.get(f"{API}/dashboard/?q=(nonsense")
    browser.post(f"{API}/css_template/", json={"template_name": f"t{browser.round}", "css": "a {}"})
    browser.get(f"{API}/css_template/")
    browser.post(f"{API}/dashboard/{number}/favorites/")
    browser.get(f"{API}/log/")
    browser.delete(f"{API}/dashboard/{number}")
    browser.get(f"{API}/dashboard/{number}")
    browser.get(f"{API}/_openapi")
    browser.get("/superset/welcome/")
    browser.note("database", database.status_code, "")
