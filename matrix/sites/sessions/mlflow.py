"""An experiment with runs, metrics, an artifact and a model, all of it changed and deleted."""

from matrix.sites.browser import Browser

API = "/api/2.0/mlflow"


def session(browser: Browser) -> None:
    name = f"experiment {browser.round}"
    made = browser.post(f"{API}/experiments/create", json={"name": name})
    browser.post(f"{API}/experiments/create", json={"name": name})
    number = made.json()["experiment_id"]
    run = browser.post(
        f"{API}/runs/create", json={"experiment_id": number, "start_time": 1, "run_name": "r"}
    )
    run_id = run.json()["run"]["info"]["run_id"]
    for step in range(5):
        metric = {
            "run_id": run_id,
            "key": "loss",
            "value": 1 / (step + 1),
            "timestamp": step,
            "step": step,
        }
        browser.post(f"{API}/runs/log-metric", json=metric)
    browser.post(f"{API}/runs/log-parameter", json={"run_id": run_id, "key": "a", "value": "1"})
    browser.post(f"{API}/runs/log-parameter", json={"run_id": run_id, "key": "a", "value": "2"})
    browser.get(f"{API}/runs/get?run_id={run_id}")
    browser.many(f"{API}/runs/get?run_id={run_id}")
    browser.get(f"{API}/metrics/get-history?run_id={run_id}&metric_key=loss")
    path = f"/api/2.0/mlflow-artifacts/artifacts/{number}/{run_id}/artifacts/file.txt"
    browser.put(path, data=b"text" * 50_000)
    browser.get(path)
    browser.get(f"{API}/artifacts/list?run_id={run_id}")
    browser.post(f"{API}/registered-models/create", json={"name": f"model {browser.round}"})
    browser.post(
        f"{API}/runs/search", json={"experiment_ids": [number], "filter": "metrics.loss < 1"}
    )
    browser.post(f"{API}/runs/search", json={"experiment_ids": [number], "filter": "nonsense <"})
    browser.post(f"{API}/runs/delete", json={"run_id": run_id})
    browser.post(f"{API}/experiments/delete", json={"experiment_id": number})
    browser.get(f"{API}/experiments/get?experiment_id={number}")
    browser.get("/")
