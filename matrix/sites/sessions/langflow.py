"""A user logs in, makes projects and flows, runs one, and stores variables, keys and files.

One flow has a component whose code ends its process.
"""

from typing import Any

import requests

from matrix.sites.browser import Browser

API = "/api/v1"
CODE = """\
from langflow.custom import Component
from langflow.io import Output
from langflow.schema.message import Message


class Says(Component):
    display_name = "Says"
    outputs = [Output(display_name="Text", name="text", method="say")]

    def say(self) -> Message:
        {body}
"""


def session(browser: Browser) -> None:
    number = browser.round
    browser.get(f"{API}/users/whoami")
    browser.post(f"{API}/login", data={"username": "admin", "password": "wrong"})
    login = browser.post(f"{API}/login", data={"username": "admin", "password": "secret-of-a-test"})
    token = {"Authorization": f"Bearer {login.json().get('access_token')}"}
    browser.http.headers.update(token)
    browser.get(f"{API}/users/whoami")
    browser.many(f"{API}/users/whoami", headers=token)
    browser.many(f"{API}/version")
    project = browser.post(f"{API}/projects/", json={"name": f"p{number}"}).json()
    flows = []
    for each in range(3):
        body = {"name": f"flow {number} {each}", "data": {"nodes": [], "edges": []}}
        flows.append(browser.post(f"{API}/flows/", json=body).json()["id"])
    browser.get(f"{API}/flows/{flows[0]}")
    browser.http.patch(f"{browser.base}{API}/flows/{flows[0]}", json={"description": "changed"})
    browser.get(f"{API}/flows/{flows[0]}")
    browser.delete(f"{API}/flows/{flows[1]}")
    browser.get(f"{API}/flows/{flows[1]}")
    variable = {
        "name": f"V{number}",
        "value": "a secret",
        "type": "Credential",
        "default_fields": [],
    }
    browser.post(f"{API}/variables/", json=variable)
    browser.post(f"{API}/variables/", json=variable)
    browser.post(f"{API}/api_key/", json={"name": f"key {number}"})
    browser.get(f"{API}/api_key/")
    browser.post("/api/v2/files", files={"file": (f"notes {number}.txt", b"three words here")})
    browser.post(f"{API}/users/", json={"username": f"u{number}", "password": "Of-a-test-1"})
    run(browser, "says", 'return Message(text="said")')
    run(browser, "fails", 'raise ValueError("as it should")')
    # A worker that ends with 3 is one that did not boot, for gunicorn, which then ends itself.
    run(browser, "leaves", "import sys; sys.exit(7)")
    browser.until("the site answers", lambda: answers(browser))
    browser.many(f"{API}/version")
    browser.delete(f"{API}/projects/{project.get('id')}")
    browser.post(f"{API}/logout")


def run(browser: Browser, name: str, body: str) -> None:
    """Make a flow of one component with this code, and run it."""
    made = browser.post(f"{API}/custom_component", json={"code": CODE.format(body=body)}).json()
    node = {
        "id": "Says-1",
        "type": "genericNode",
        "position": {"x": 0, "y": 0},
        "data": {"id": "Says-1", "type": "Says", "node": made.get("data", {})},
    }
    flow: dict[str, Any] = {
        "name": f"{name} {browser.round}",
        "data": {"nodes": [node], "edges": []},
    }
    key = browser.post(f"{API}/flows/", json=flow).json().get("id")
    browser.post(f"{API}/build/{key}/flow?event_delivery=direct", json={})


def answers(browser: Browser) -> bool:
    try:
        return requests.get(browser.base + "/health", timeout=10).ok
    except requests.RequestException:
        return False
