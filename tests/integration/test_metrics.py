"""The exporter beside a real server, its middleware, and the dashboard's queries."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from running import PATIENCE_S

from pasture.trial.plan import free_port

parser = pytest.importorskip("prometheus_client.parser")

REPOSITORY = Path(__file__).resolve().parents[2]
DASHBOARD = REPOSITORY / "docs" / "grafana-dashboard.json"


def fetch(url):
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def samples(text):
    """Dict of (name, labels without pid) to the values found."""
    found = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(item for item in sample.labels.items() if item[0] != "pid"))
            found.setdefault((sample.name, labels), []).append(sample.value)
    return found


@pytest.fixture
def watched(serve, tmp_path):
    """A gunicorn that counts."""
    env = {
        "PASTURE_METRICS_DIR": str(tmp_path / "metrics"),
        "PASTURE_REPORT_FILE": str(tmp_path / "report.json"),
    }
    return lambda *args, **kwargs: serve(*args, env=env, **kwargs)


@pytest.fixture
def export():
    started = []

    def start(pid):
        port = free_port()
        command = [sys.executable, "-m", "pasture", "metrics", str(pid), "--port", str(port)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert f"http://127.0.0.1:{port}/metrics" in process.stderr.readline()
        return process, f"http://127.0.0.1:{port}/metrics"

    yield start
    for process in started:
        process.kill()
        process.wait(PATIENCE_S)
        process.stderr.close()


def test_the_exporter_tells_memory_collections_and_the_seal(watched, export):
    server = watched()
    for _ in range(6):
        server.get("/collect")
    _, url = export(server.process.pid)
    found = samples(fetch(url))
    assert found["pasture_up", ()] == [1]
    assert found["pasture_workers", ()] == [2]
    worker = (("role", "worker"),)
    for name in ("pss", "private", "shared", "growth"):
        assert len(found[f"pasture_process_{name}_bytes", worker]) == 2
    pss = found["pasture_process_pss_bytes", worker]
    pss += found["pasture_process_pss_bytes", (("role", "master"),)]
    assert found["pasture_tree_pss_bytes", ()] == [pytest.approx(sum(pss))]
    assert found["pasture_collections_total", (("generation", "2"),)][0] >= 6
    assert found["pasture_collection_pause_seconds_count", ()][0] >= 6
    assert found["pasture_collection_pause_seconds_sum", ()][0] > 0
    assert found["pasture_seal_sealed", ()] == [1]
    assert found["pasture_seal_round", ()] == [1]
    assert found["pasture_worker_starts_total", ()] == [2]
    minor = (("kind", "minor"), ("role", "worker"))
    assert min(found["pasture_process_faults_total", minor]) > 0


def test_totals_do_not_fall_when_workers_end_and_the_exporter_ends_with_its_server(watched, export):
    server = watched()
    process, url = export(server.process.pid)
    for _ in range(4):
        server.get("/collect")
    before = samples(fetch(url))
    os.kill(server.workers()[0], signal.SIGKILL)
    server.wait_until_it_logs("Booting worker", times=3)
    server.wait_for(lambda: len(server.workers()) == 2, "a new worker")
    server.wait_for(
        lambda: samples(fetch(url))["pasture_worker_starts_total", ()] == [3], "a third start"
    )
    after = samples(fetch(url))
    for key in before:
        if key[0].endswith(("_total", "_count", "_bucket")) and "faults" not in key[0]:
            assert after[key] >= before[key], key
    assert server.stop() == 0
    assert process.wait(PATIENCE_S) == 0
    assert "has ended" in process.stderr.read()


def test_a_server_without_files_to_count_in_is_measured_from_outside(serve, export):
    _, url = export(serve().process.pid)
    found = samples(fetch(url))
    assert found["pasture_workers", ()] == [2]
    assert ("pasture_recycles_total", ()) not in found


def test_recycles_are_counted(watched, export, tmp_path):
    server = watched(app="leaking_app:app", options=("--max-uss", "20M"), workers=1)
    _, url = export(server.process.pid)
    for _ in range(30):
        server.get("/")
    recycled = server.log.count("recycling worker")
    assert recycled >= 2
    assert samples(fetch(url))["pasture_recycles_total", ()] == [recycled]


def test_the_middleware_answers_from_any_worker_and_leaves_other_paths_alone(watched, tmp_path):
    (tmp_path / "measured.py").write_text(
        "from herd_app import app\n"
        "from pasture.metrics.middleware import Metrics\n"
        "application = Metrics(app, '/figures')\n"
    )
    server = watched(app="measured:application")
    found = samples(fetch(f"http://127.0.0.1:{server.port}/figures"))
    assert found["pasture_workers", ()] == [2]
    assert found["pasture_seal_sealed", ()] == [1]
    assert server.get("/who")["pid"] in server.workers()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [(["4194999"], 2, "there is no process 4194999"), (["0"], 2, "PID")],
)
def test_a_process_that_is_not_there_is_told(words, code, told):
    command = [sys.executable, "-m", "pasture", "metrics", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code and told in done.stderr


def test_a_taken_port_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "pasture", "metrics", str(os.getpid()), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 8 and f"port {port} is taken" in done.stderr


def dashboard_queries():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_the_dashboard_and_the_exporter_name_the_same_metrics(watched, export):
    server = watched()
    server.get("/collect")
    _, url = export(server.process.pid)
    served = {name for name, _ in samples(fetch(url))}
    asked = set(re.findall(r"\bpasture_\w+", " ".join(dashboard_queries())))
    assert asked <= served
    of_histogram = {f"pasture_collection_pause_seconds_{part}" for part in ("count", "sum")}
    beside = {name for name in served if name.endswith("_created")}
    assert served - asked - beside == of_histogram | {"pasture_up", "pasture_seal_info"}


@pytest.fixture
def prometheus(tmp_path):
    """Start a real Prometheus that scrapes one address."""
    tool = subprocess.run(
        [str(REPOSITORY / "tools" / "services"), "prometheus"], capture_output=True, text=True
    )
    if tool.returncode != 0:
        pytest.skip(f"Prometheus cannot be had: {tool.stderr.strip()}")
    started = []

    def start(address):
        port = free_port()
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
            "scrape_configs:\n"
            f"  - {{job_name: pasture, static_configs: [{{targets: ['{address}']}}]}}\n"
        )
        with (tmp_path / "prometheus.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    tool.stdout.strip(),
                    f"--config.file={tmp_path}/prometheus.yml",
                    f"--storage.tsdb.path={tmp_path}/tsdb",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )
        started.append(process)
        return f"http://127.0.0.1:{port}"

    yield start
    for process in started:
        process.terminate()
        process.wait(PATIENCE_S)
    print((tmp_path / "prometheus.log").read_text())


def ask(prometheus, query):
    words = urllib.parse.urlencode({"query": query})
    try:
        return json.loads(fetch(f"{prometheus}/api/v1/query?{words}"))["data"]["result"]
    except (urllib.error.URLError, OSError):
        return []


def test_a_real_prometheus_answers_every_query_of_the_dashboard(watched, export, prometheus):
    server = watched()
    _, url = export(server.process.pid)
    base = prometheus(url.removeprefix("http://").removesuffix("/metrics"))
    deadline = time.monotonic() + PATIENCE_S
    queries = [
        query.replace("$instance", ".*").replace("$__rate_interval", "30s")
        for query in dashboard_queries()
    ]
    unanswered = set(queries)
    while unanswered:
        assert time.monotonic() < deadline, f"no answer to {unanswered}"
        server.get("/collect")
        unanswered = {query for query in unanswered if not ask(base, query)}
        time.sleep(0.2)
    [workers] = ask(base, "pasture_workers")
    assert workers["value"][1] == "2"
