"""Flows, runs, their states, variables and blocks are made, read, changed and deleted."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    flow = browser.post("/api/flows/", json={"name": f"flow {browser.round}"}).json()
    runs = []
    for number in range(6):
        made = browser.post(
            "/api/flow_runs/", json={"flow_id": flow["id"], "name": f"run {number}"}
        )
        runs.append(made.json()["id"])
    for name in ("PENDING", "RUNNING", "COMPLETED"):
        state = {"state": {"type": name}, "force": False}
        browser.post(f"/api/flow_runs/{runs[0]}/set_state", json=state)
    browser.get(f"/api/flow_runs/{runs[0]}")
    browser.many(f"/api/flow_runs/{runs[1]}")
    browser.many("/api/health")
    browser.post("/api/flow_runs/filter", json={"flows": {"id": {"any_": [flow["id"]]}}})
    browser.post("/api/flow_runs/count", json={})
    for run in runs[2:]:
        browser.delete(f"/api/flow_runs/{run}")
    browser.get(f"/api/flow_runs/{runs[2]}")
    browser.post("/api/variables/", json={"name": f"v{browser.round}", "value": 1})
    browser.post("/api/variables/", json={"name": f"v{browser.round}", "value": 1})
    browser.get(f"/api/variables/name/v{browser.round}")
    browser.post(
        "/api/concurrency_limits/", json={"tag": f"t{browser.round}", "concurrency_limit": 3}
    )
    browser.post(
        "/api/logs/",
        json=[
            {
                "name": "l",
                "level": 20,
                "message": "m",
                "timestamp": "2026-01-01T00:00:00Z",
                "flow_run_id": runs[0],
            }
        ],
    )
    browser.until(
        "logs are stored",
        lambda: browser.http.post(browser.base + "/api/logs/filter", json={}).json() != [],
    )
    browser.delete(f"/api/flows/{flow['id']}")
    browser.get("/api/admin/version")
