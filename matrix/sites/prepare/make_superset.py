"""A database with an administrator who is logged in."""

import subprocess
import sys
from pathlib import Path

here = Path.cwd()
(here / "superset_config.py").write_text(
    f"""SECRET_KEY = "a-secret-of-this-benchmark-alone-0123456789"
SQLALCHEMY_DATABASE_URI = "sqlite:///{here}/superset.db"
TALISMAN_ENABLED = False
WTF_CSRF_ENABLED = False
"""
)


def superset(*words: str) -> None:
    subprocess.run([Path(sys.executable).with_name("superset"), *words], check=True)


superset("db", "upgrade")
superset("fab", "create-admin", "--username", "admin", "--firstname", "A", "--lastname", "B",
      "--email", "a@example.com", "--password", "admin")  # fmt: skip
superset("init")

from superset.app import create_app  # noqa: E402

client = create_app().test_client()
client.post("/login/", data={"username": "admin", "password": "admin"})
cookie = client.get_cookie("session")
assert cookie is not None, "no session"
Path("headers.txt").write_text(f"Cookie: session={cookie.value}\n")
urls = [
    "/superset/welcome/",
    "/chart/list/",
    "/dashboard/list/",
    "/tablemodelview/list/",
    "/users/",
]
urls += [
    "/api/v1/chart/",
    "/api/v1/dashboard/",
    "/api/v1/dataset/",
    "/api/v1/database/",
    "/sqllab/",
]
urls += ["/api/v1/me/", "/api/v1/me/roles/", "/api/v1/menu/", "/api/v1/_openapi", "/healthcheck"]
Path("urls.txt").write_text("\n".join(urls) + "\n")
