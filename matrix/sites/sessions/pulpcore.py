"""An administrator makes repositories, uploads files, publishes and distributes them, and deletes them."""

from typing import Any

from matrix.sites.browser import Browser

API = "/pulp/api/v3"
FINAL = ("completed", "failed", "canceled")


def session(browser: Browser) -> None:
    number = browser.round
    browser.get(f"{API}/repositories/")
    browser.http.auth = ("admin", "wrong")
    browser.get(f"{API}/repositories/")
    browser.http.auth = ("admin", "secret-of-a-test")
    browser.until("a worker is online", lambda: has_workers(browser))
    browser.note("apps by kind", 0, apps(browser), masked=True)
    browser.many(f"{API}/status/")
    browser.many(f"{API}/users/", auth=browser.http.auth)
    made = browser.post(f"{API}/repositories/file/file/", json={"name": f"r{number}"}).json()
    browser.post(f"{API}/repositories/file/file/", json={"name": f"r{number}"})
    repository = made["pulp_href"]
    for each in range(3):
        answer = browser.post(
            f"{API}/content/file/files/",
            data={"relative_path": f"{each}.txt", "repository": repository},
            files={"file": (f"{each}.txt", f"file {each} of round {number}".encode())},
        )
        wait(browser, answer.json())
    browser.get(f"{repository}versions/")
    answer = browser.post(f"{API}/publications/file/file/", json={"repository": repository})
    publication = wait(browser, answer.json())
    answer = browser.post(
        f"{API}/distributions/file/file/",
        json={"name": f"d{number}", "base_path": f"files/{number}", "publication": publication},
    )
    wait(browser, answer.json())
    browser.http.patch(browser.base + repository, json={"description": "changed"})
    browser.get(f"{API}/content/file/files/?ordering=relative_path&fields=relative_path,sha256")
    browser.get(f"{API}/tasks/?fields=name,state&ordering=pulp_created")
    wait(browser, browser.delete(repository).json())
    browser.get(repository)
    browser.post(f"{API}/orphans/cleanup/", json={"orphan_protection_time": 0})
    browser.until("all tasks have ended", lambda: not waiting(browser))
    browser.note("apps by kind", 0, apps(browser), masked=True)
    browser.get(f"{API}/docs/api.json")


def wait(browser: Browser, answer: dict[str, Any]) -> str:
    """Wait for a task; a step with its state. What it made."""
    href = answer.get("task")
    if href is None:
        return str(answer.get("pulp_href", ""))
    task: dict[str, Any] = {}

    def ended() -> bool:
        task.update(browser.http.get(browser.base + href).json())
        return task["state"] in FINAL

    browser.until("a task has ended", ended)
    browser.note("state of the task", 0, f"{task['name']} {task['state']} {task['error']}")
    return next(iter(task["created_resources"]), "")


def waiting(browser: Browser) -> int:
    asked = browser.http.get(f"{browser.base}{API}/tasks/?state__in=waiting,running").json()
    found: int = asked["count"]
    return found


def has_workers(browser: Browser) -> bool:
    return bool(browser.http.get(f"{browser.base}{API}/status/").json()["online_workers"])


def apps(browser: Browser) -> str:
    """How many processes of each kind have registered themselves, and how many different names."""
    found = browser.http.get(f"{browser.base}{API}/status/").json()
    kinds = ("online_api_apps", "online_content_apps", "online_workers")
    return ", ".join(f"{kind}: {len({one['name'] for one in found[kind]})}" for kind in kinds)
