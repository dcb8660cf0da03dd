"""A database, a few DAGs, and a token of an administrator."""

import os
import subprocess
import sys
from pathlib import Path

here = Path.cwd()
(here / "dags").mkdir(exist_ok=True)
(here / "dags" / "many.py").write_text(
    """from airflow.sdk import DAG, task
for number in range(20):
    with DAG(f"dag_{number}", schedule=None) as dag:
        @task
        def extract(): return 1
        @task
        def load(value): return value
        load(extract())
    globals()[f"dag_{number}"] = dag
"""
)
environ = {**os.environ, "AIRFLOW__CORE__DAGS_FOLDER": str(here / "dags")}


def airflow(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "airflow", *words], check=True, env=environ)


airflow("db", "migrate")
airflow("dags", "reserialize")

from airflow.api_fastapi.app import create_auth_manager  # noqa: E402
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser  # noqa: E402

manager = create_auth_manager()
token = manager.generate_jwt(
    SimpleAuthManagerUser(username="admin", role="ADMIN"), expiration_time_in_seconds=10**8
)
Path("headers.txt").write_text(f"Authorization: Bearer {token}\n")
urls = [
    "/",
    "/api/v2/version",
    "/api/v2/dags",
    "/api/v2/dagRuns",
    "/api/v2/monitor/health",
    "/openapi.json",
]
urls = [
    "/api/v2/version",
    "/api/v2/dags",
    "/api/v2/monitor/health",
    "/api/v2/pools",
    "/api/v2/plugins",
]
urls += [f"/api/v2/dags/dag_{n}" for n in range(20)] + [
    f"/api/v2/dags/dag_{n}/details" for n in range(20)
]
urls += [f"/api/v2/dags/dag_{n}/tasks" for n in range(20)] + ["/ui/dags", "/ui/config"]
Path("urls.txt").write_text("\n".join(urls) + "\n")
