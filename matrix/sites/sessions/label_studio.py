"""A user logs in, makes a project, imports tasks, labels them, exports and deletes."""

from matrix.sites.browser import Browser

CONFIG = """<View><Text name="t" value="$text"/><Choices name="c" toName="t"><Choice value="a"/>
<Choice value="b"/></Choices></View>"""


def session(browser: Browser) -> None:
    browser.get("/")
    browser.submit("/user/login/", {"email": "o@example.com", "password": "wrong"})
    browser.submit("/user/login/", {"email": "o@example.com", "password": "secret-of-a-benchmark"})
    browser.get("/projects/")
    browser.http.headers["X-CSRFToken"] = browser.http.cookies.get("csrftoken") or ""
    made = browser.post(
        "/api/projects/", json={"title": f"made {browser.round}", "label_config": CONFIG}
    )
    project = made.json()["id"]
    tasks = [{"text": f"sentence {number}"} for number in range(20)]
    browser.post(f"/api/projects/{project}/import", json=tasks)
    browser.post(
        f"/api/projects/{project}/import", files={"f": ("t.csv", b"text\none\ntwo\n", "text/csv")}
    )
    browser.post("/api/projects/", json={"title": "bad", "label_config": "<View"})
    found = browser.get(f"/api/tasks/?project={project}&page_size=50").json()
    task = found["tasks"][0]["id"]
    result = [{"from_name": "c", "to_name": "t", "type": "choices", "value": {"choices": ["a"]}}]
    made = browser.post(f"/api/tasks/{task}/annotations/", json={"result": result})
    browser.request("PATCH", f"/api/annotations/{made.json()['id']}/", json={"was_cancelled": True})
    browser.get(f"/api/projects/{project}/")
    browser.many("/api/projects/")
    browser.many(f"/api/tasks/{task}/")
    browser.get(f"/api/projects/{project}/export?exportType=JSON&download_all_tasks=true")
    browser.delete(f"/api/tasks/{task}/")
    browser.get(f"/api/tasks/{task}/")
    browser.delete(f"/api/projects/{project}/")
    browser.get(f"/api/projects/{project}/")
    browser.get("/api/version")
