"""Experiments with runs in a SQLite database."""

import os
from pathlib import Path

import mlflow
from mlflow.tracking import MlflowClient

mlflow.set_tracking_uri(os.environ["_MLFLOW_SERVER_FILE_STORE"])
client = MlflowClient()
runs = []
for number in range(5):
    name = f"experiment {number}"
    found = client.get_experiment_by_name(name)
    experiment = found.experiment_id if found else client.create_experiment(name)
    for _ in range(10):
        run = client.create_run(experiment).info.run_id
        for step in range(20):
            client.log_metric(run, "loss", 1 / (step + 1), step=step)
        client.log_param(run, "rate", 0.1)
        runs.append(run)
api = "/api/2.0/mlflow"
urls = ["/", "/health", "/version", f"{api}/experiments/search?max_results=100"]
urls += [f"{api}/experiments/get?experiment_id={n}" for n in range(5)]
urls += [f"{api}/runs/get?run_id={run}" for run in runs[:20]]
urls += [f"{api}/metrics/get-history?run_id={run}&metric_key=loss" for run in runs[20:40]]
Path("urls.txt").write_text("\n".join(urls) + "\n")
