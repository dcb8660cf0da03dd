"""The exporter beside a real server, its middleware, and the dashboard's queries."""

import contextlib
import http.server
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path

import psutil
import pytest
from running import TIMEOUT_S, completed, free_port, listens, pasture

from pasture.errors import NoPrivilege
from pasture.scoreboard.reader import read_scoreboard

parser = pytest.importorskip("prometheus_client.parser")

from prometheus_client import CollectorRegistry, generate_latest  # noqa: E402

from pasture_tools.metrics.exporter import ServerCollector  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = REPOSITORY / "tests" / "programs"
DASHBOARD = REPOSITORY / "docs" / "grafana-dashboard.json"


def fetch(url):
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return answer.read().decode()


def port_of(url):
    return urllib.parse.urlsplit(url).port


def samples(text):
    """Dict of (name, labels without pid) to the values found."""
    found = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(item for item in sample.labels.items() if item[0] != "pid"))
            found.setdefault((sample.name, labels), []).append(sample.value)
    return found


@contextlib.contextmanager
def exporters():
    started = []

    def start(server):
        port = free_port()
        command = [sys.executable, "-m", "pasture", "metrics", str(server), "--port", str(port)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert f"http://127.0.0.1:{port}/metrics" in process.stderr.readline()
        return process, f"http://127.0.0.1:{port}/metrics"

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait(TIMEOUT_S)
            process.stderr.close()


@pytest.fixture
def export():
    with exporters() as start:
        yield start


@pytest.fixture(scope="module")
def exported(herd):
    """The address of one exporter, for tests that only ask it: its server has collected."""
    for _ in range(6):
        herd.get("/collect")
    with exporters() as start:
        _, url = start(herd.pid)
        yield url


def test_the_exporter_reports_memory_collections_and_the_seal(exported):
    found = samples(fetch(exported))
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


@pytest.mark.once
def test_totals_do_not_fall_when_workers_end_and_the_exporter_ends_with_its_server(serve, export):
    server = serve()
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
    assert process.wait(TIMEOUT_S) == 0
    assert "has ended" in process.stderr.read()


@pytest.mark.parametrize("by", ["file", "name"])
@pytest.mark.once
def test_by_another_name_than_a_pid_the_exporter_stays_while_its_server_is_restarted(
    serve, export, tmp_path, by
):
    name = tmp_path / "pid" if by == "file" else tmp_path.name
    process, url = export(name)
    assert samples(fetch(url)) == {("pasture_up", ()): [0]}
    pids = set()
    for _ in range(2):
        server = serve("--pid", str(tmp_path / "pid"), workers=1)
        server.wait_for(
            lambda: samples(fetch(url)).get(("pasture_seal_sealed", ())) == [1], "figures"
        )
        assert process.stderr.readline() == f"{name} is process {server.process.pid}\n"
        pids.add(server.process.pid)
        assert server.stop() == 0
        deadline = time.monotonic() + TIMEOUT_S
        while samples(fetch(url)) != {("pasture_up", ()): [0]}:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert process.stderr.readline() == f"{name} is not running\n"
    assert len(pids) == 2 and process.poll() is None


@pytest.mark.once
def test_a_server_without_pasture_is_measured_from_outside(serve, export):
    _, url = export(serve("--preload", plain=True).process.pid)
    found = samples(fetch(url))
    assert found["pasture_workers", ()] == [2]
    assert ("pasture_recycles_total", ()) not in found


@pytest.mark.once
def test_recycles_are_counted(serve, export):
    server = serve(app="leaking_app:app", options=("--max-uss", "20M"), workers=1)
    _, url = export(server.process.pid)
    for _ in range(30):
        server.get("/")
    assert server.log.count("recycling worker") >= 2
    # A worker looks at its memory after the response.
    server.wait_for(
        lambda: (
            samples(fetch(url))["pasture_recycles_total", ()]
            == [server.log.count("recycling worker")]
        ),
        "every recycle counted, and once",
    )


@pytest.mark.once
def test_the_middleware_answers_from_any_worker_and_leaves_other_paths_alone(serve, tmp_path):
    (tmp_path / "measured.py").write_text(
        "from herd_app import app\n"
        "from pasture_tools.metrics.middleware import Metrics\n"
        "application = Metrics(app, '/figures')\n"
    )
    server = serve(app="measured:application")
    found = samples(fetch(f"http://127.0.0.1:{server.port}/figures"))
    assert found["pasture_workers", ()] == [2]
    assert found["pasture_seal_sealed", ()] == [1]
    assert server.get("/who")["pid"] in server.workers()


@pytest.mark.parametrize(
    ("words", "code", "reported"),
    [(["4194999"], 14, "there is no process 4194999"), (["0"], 2, "PID")],
)
@pytest.mark.once
def test_a_process_that_is_not_there_is_reported(words, code, reported):
    done = pasture("metrics", *words)
    assert done.returncode == code and reported in done.stderr


@pytest.mark.once
def test_a_process_without_memory_is_reported():
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    done = pasture("metrics", zombie.pid)
    assert done.returncode == 14 and "(a zombie)" in done.stderr
    zombie.wait()


@pytest.mark.once
def test_a_taken_port_is_reported():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = pasture("metrics", os.getpid(), "--port", port)
    assert done.returncode == 8 and f"port {port} is taken" in done.stderr


COUNTED = ("_total", "_count", "_sum", "_bucket")


def assert_no_total_falls(before, after):
    for key in before:
        if key[0].endswith(COUNTED) and "process" not in key[0]:
            assert after[key] >= before[key], key


@pytest.mark.once
def test_totals_never_fall_while_workers_end_all_the_time(serve, export):
    server = serve("--max-requests", "10", workers=3)
    _, url = export(server.process.pid)
    stop, seen, scrapes = threading.Event(), samples(fetch(url)), 0

    def load():
        while not stop.is_set():
            with contextlib.suppress(OSError):
                server.get("/who")

    clients = [threading.Thread(target=load) for _ in range(2)]
    for client in clients:
        client.start()
    try:
        # By the memory that all share: the exporter keeps a text for a second.
        collector = CollectorRegistry()
        collector.register(ServerCollector(server.process.pid))
        while server.log.count("Booting worker") < 30 or scrapes < 10:
            now = samples(generate_latest(collector).decode())
            assert_no_total_falls(seen, now)
            seen, scrapes = now, scrapes + 1
    finally:
        stop.set()
        for client in clients:
            client.join()
    server.wait_for(
        lambda: (
            samples(generate_latest(collector).decode())["pasture_worker_starts_total", ()]
            == [server.log.count("Booting worker")]
        ),
        "every start counted, and once",
    )


def other_users_process(**env):
    """A process of a user without any privilege, who decides what its environment says."""
    if os.getuid() != 0:
        pytest.skip("starts a process as another user")
    return subprocess.Popen(["sleep", "300"], user=65534, group=65534, extra_groups=[], env=env)


@pytest.mark.parametrize("kind", ["malformed", "fifo"])
@pytest.mark.once
def test_the_report_that_a_watched_process_names_is_no_problem_of_others(export, tmp_path, kind):
    report = tmp_path / "report.json"
    report.write_text("{}") if kind == "malformed" else os.mkfifo(report)
    with other_users_process(PASTURE_REPORT_FILE=str(report)) as process:
        _, url = export(process.pid)
        assert "pasture_up 1.0" in fetch(url)
        process.kill()


NO_ROOM = """
import errno, os
def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
os.posix_fallocate = full
"""


@pytest.mark.parametrize("options", [(), ("--refork", "50")])
@pytest.mark.once
def test_a_server_without_memory_for_counts_serves_without_them(serve, export, options):
    server = serve(conf=NO_ROOM, options=options)
    assert server.get("/who")["pid"] in server.workers()
    assert server.log.count("memory for the counters is missing") == 1
    _, url = export(server.process.pid)
    found = samples(fetch(url))
    assert found["pasture_workers", ()] == [2]
    assert ("pasture_worker_starts_total", ()) not in found


@pytest.mark.once
def test_servers_whose_masters_have_the_same_pid_are_kept_apart(serve, tmp_path):
    """Two containers with one folder: both masters are process 1."""
    if os.getuid() != 0:
        pytest.skip("makes namespaces of pids")
    masters = []
    for workers in (1, 2):
        inside = ["unshare", "--pid", "--fork", "--mount-proc"]
        if subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
            pytest.skip("namespaces of pids cannot be made")
        server = serve(before=inside, workers=workers, ready=False)
        server.wait_until_it_logs("Booting worker", times=workers)
        server.wait_for(lambda server=server: listens(server.port), "an answer")
        server.get("/who")
        [master] = server.children()
        masters.append((server, master, workers))
    for server, master, workers in masters:
        assert Path(f"/proc/{master}/status").read_text().split("NSpid:")[1].split()[1] == "1"
        found = read_scoreboard(master)
        assert found.total.starts == workers
        server.wait_for(lambda m=master: read_scoreboard(m).total.requests == 1, "a request")
        assert sorted(read_scoreboard(master).entries) == sorted(server.children(master))


@pytest.mark.once
def test_a_client_that_never_ends_its_request_loses_its_connection(exported):
    port = port_of(exported)
    slow = [socket.create_connection(("127.0.0.1", port), TIMEOUT_S) for _ in range(150)]
    try:
        for client in slow:
            with contextlib.suppress(ConnectionError):
                client.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow:")
        assert "pasture_up 1.0" in fetch(exported)
        for client in slow:
            with contextlib.suppress(ConnectionError):
                assert client.recv(1) == b""
    finally:
        for client in slow:
            client.close()


NO_REQUESTS = {
    b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n": b"431",
    b"POST / HTTP/1.1\r\n\r\n": b"405",
    b"HEAD / HTTP/1.1\r\n\r\n": b"200",
    b"\0\xff \r\n\r\n": b"405",
}


@pytest.mark.once
def test_a_request_that_is_none_is_refused(exported):
    port = port_of(exported)
    for request, status in NO_REQUESTS.items():
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as client:
            client.sendall(request)
            answer = client.makefile("rb").read()
        assert answer.split(b" ")[1] == status, request[:40]
        assert status == b"200" or answer.endswith(b"\r\n\r\n"), request[:40]
        assert "pasture_up 1.0" in fetch(exported), request[:40]


@pytest.mark.once
def test_a_server_of_another_user_is_reported_and_not_scraped(herd):
    if os.getuid() != 0:
        pytest.skip("runs as another user")
    unprivileged = str(PROGRAMS / "unprivileged.py")
    done = completed([sys.executable, unprivileged, "-m", "pasture", "metrics", herd.pid])
    assert done.returncode == NoPrivilege.exit_code, done.stderr
    assert "or as root" in done.stderr


def dashboard_queries():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


@pytest.mark.once
def test_the_dashboard_and_the_exporter_name_the_same_metrics(exported):
    served = {name for name, _ in samples(fetch(exported))}
    asked = set(re.findall(r"\bpasture_\w+", " ".join(dashboard_queries())))
    assert asked <= served
    of_histogram = {f"pasture_collection_pause_seconds_{part}" for part in ("count", "sum")}
    beside = {name for name in served if name.endswith("_created")}
    assert served - asked - beside == of_histogram | {"pasture_up", "pasture_seal_info"}


@pytest.fixture
def prometheus(tmp_path):
    """Start a real Prometheus that scrapes these addresses, and evaluates rules."""
    tool = subprocess.run(
        [str(REPOSITORY / "tools" / "services"), "prometheus"], capture_output=True, text=True
    )
    if tool.returncode != 0:
        pytest.skip(f"Prometheus cannot be had: {tool.stderr.strip()}")
    started = []

    def start(*addresses, rules="groups: []\n"):
        port = free_port()
        (tmp_path / "rules.yml").write_text(rules)
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{tmp_path}/rules.yml]\n"
            "scrape_configs:\n"
            f"  - {{job_name: pasture, static_configs: [{{targets: {list(addresses)}}}]}}\n"
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
        process.wait(TIMEOUT_S)
        print((tmp_path / "prometheus.log").read_text())


def ask(prometheus, query):
    words = urllib.parse.urlencode({"query": query})
    try:
        return json.loads(fetch(f"{prometheus}/api/v1/query?{words}"))["data"]["result"]
    except (urllib.error.URLError, OSError):
        return []


@pytest.mark.once
def test_a_real_prometheus_answers_every_query_of_the_dashboard(herd, exported, prometheus):
    base = prometheus(f"127.0.0.1:{port_of(exported)}")
    deadline = time.monotonic() + TIMEOUT_S
    queries = [
        query.replace("$instance", ".*").replace("$__rate_interval", "30s")
        for query in dashboard_queries()
    ]
    unanswered = set(queries)
    while unanswered:
        assert time.monotonic() < deadline, f"no answer to {unanswered}"
        herd.get("/collect")
        unanswered = {query for query in unanswered if not ask(base, query)}
        time.sleep(0.2)
    [workers] = ask(base, "pasture_workers")
    assert workers["value"][1] == "2"


@pytest.mark.once
def test_the_dashboards_memory_is_that_of_smaps_for_several_servers_and_policies(
    herd, serve, export, prometheus
):
    servers = [herd, serve(), serve(options=("--policy", "freeze"))]
    policies = ["seal", "seal", "freeze"]
    for server in servers:
        server.get("/collect")
    ports = [port_of(export(server.process.pid)[1]) for server in servers]
    base = prometheus(*(f"127.0.0.1:{port}" for port in ports))

    def asked(expression, label="instance"):
        query = expression.replace("$instance", ".*")
        found = {row["metric"][label]: float(row["value"][1]) for row in ask(base, query)}
        return [found.get(f"127.0.0.1:{port}") for port in ports] if label == "instance" else found

    deadline = time.monotonic() + TIMEOUT_S
    while None in asked("pasture_tree_pss_bytes"):
        assert time.monotonic() < deadline, "Prometheus has not read all servers"
        time.sleep(0.2)

    begins = (
        *("pasture_tree_pss_bytes", "pasture_process_private_bytes"),
        "sum by (instance) (pasture_process_shared_bytes",
    )
    queries = dashboard_queries()
    memory, of_workers, part = (next(q for q in queries if q.startswith(b)) for b in begins)
    by_policy = "sum by (policy) (pasture_tree_pss_bytes * on (instance) group_left (policy) {})"

    def compare():
        trees = [kernel_bytes(server.process.pid, *server.workers())[0] for server in servers]
        of_servers = [kernel_bytes(*server.workers()) for server in servers]
        _, private, shared = zip(*of_servers, strict=True)
        assert asked(memory) == pytest.approx(trees, rel=0.02)
        found = asked(f"sum by (instance) ({of_workers})")
        assert found == pytest.approx(list(private), rel=0.02)
        parts = [s / (s + p) for s, p in zip(shared, private, strict=True)]
        assert asked(part) == pytest.approx(parts, rel=0.02)
        of_policy = {"seal": 0, "freeze": 0}
        for policy, tree in zip(policies, trees, strict=True):
            of_policy[policy] += tree
        found = asked(by_policy.format("pasture_seal_info"), label="policy")
        assert found == pytest.approx(of_policy, rel=0.02)

    until_alike(compare)


def until_alike(compare):
    """What a comparison returns once it holds: the PSS of a process changes with all others of the
    machine that map the same files."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return compare()
        except (AssertionError, LookupError, OSError, psutil.Error):  # it has ended, too
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def roles_as_the_kernel_says(server_pid):
    """How many processes of each role the exporter has; all figures are those of smaps_rollup."""
    server = psutil.Process(server_pid)

    def compare():
        below = [one.pid for one in server.children(recursive=True) if one.exe() == server.exe()]
        kernel = {pid: kernel_bytes(pid) for pid in (server_pid, *below)}
        found = {}
        for family in ServerCollector(server_pid).collect():
            for one in family.samples:
                process = one.labels.get("role"), one.labels.get("pid")
                found.setdefault(one.name, {})[process] = one.value
        pss = found["pasture_process_pss_bytes"]
        for (role, pid), size in pss.items():
            private, shared = (found[f"pasture_process_{of}_bytes"] for of in ("private", "shared"))
            parts = size, private[role, pid], shared[role, pid]
            assert parts == pytest.approx(kernel[int(pid)], rel=0.02)
        assert {int(pid) for _, pid in pss} == set(kernel)
        [total] = found["pasture_tree_pss_bytes"].values()
        assert total == pytest.approx(sum(whole for whole, _, _ in kernel.values()), rel=0.02)
        return Counter(role for role, _ in pss)

    return until_alike(compare)


def kernel_bytes(*pids):
    """The PSS of some processes together, and what is private and shared of them."""
    found = Counter()
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        for name, size in re.findall(r"^(Pss:|Private|Shared)\S* +(\d+)", text, re.MULTILINE):
            found[name] += int(size) * 1024
    return found["Pss:"], found["Private"], found["Shared"]


@pytest.mark.once
def test_a_container_of_the_same_pod_needs_no_pid(serve):
    """Its processes have one namespace of pids: `shareProcessNamespace`."""
    if os.getuid() != 0:
        pytest.skip("makes a namespace of pids")
    server = serve(before=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"))
    (master,) = psutil.Process(server.process.pid).children()
    port = free_port()
    enter = ["nsenter", "--target", str(master.pid), "--pid", "--mount", sys.executable]
    words = ["-m", "pasture", "metrics", "--port", str(port)]
    with subprocess.Popen([*enter, *words], stderr=subprocess.PIPE, text=True) as exporter:
        try:
            assert exporter.stderr.readline() == "the pre-fork server is process 1\n"
            assert exporter.stderr.readline().startswith("metrics of the pre-fork server at ")
            found = samples(fetch(f"http://127.0.0.1:{port}/metrics"))
        finally:
            exporter.kill()
    assert found["pasture_workers", ()] == [2]
    assert found["pasture_seal_sealed", ()] == [1]
    top = subprocess.run(
        [*enter, "-m", "pasture", "top", "--once"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert top.returncode == 0 and "worker" in top.stdout, top.stderr


@pytest.mark.once
def test_the_alerts_are_raised_where_they_should_be():
    tool = subprocess.run(
        [str(REPOSITORY / "tools" / "services"), "promtool"], capture_output=True, text=True
    )
    if tool.returncode != 0:
        pytest.skip(f"promtool cannot be had: {tool.stderr.strip()}")
    rules = REPOSITORY / "examples" / "prometheus" / "alerts_test.yml"
    done = subprocess.run([tool.stdout.strip(), "test", "rules", rules], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.once
def test_an_alert_names_no_metric_that_the_exporter_lacks(exported):
    rules = (REPOSITORY / "examples" / "prometheus" / "alerts.yml").read_text()
    served = {name for name, _ in samples(fetch(exported))}
    assert set(re.findall(r"\bpasture_\w+", rules)) <= served


@pytest.mark.once
def test_a_collector_of_opentelemetry_gets_what_prometheus_sees(herd):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    received = queue.Queue()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.put((self.path, self.headers["Content-Encoding"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        command = [sys.executable, "-m", "pasture", "metrics", str(herd.pid), "--otlp", url]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                path, encoding, body = received.get(timeout=TIMEOUT_S)
            finally:
                process.kill()
        server.shutdown()

    assert (path, encoding) == ("/v1/metrics", None)
    (of_server,) = metrics_service_pb2.ExportMetricsServiceRequest.FromString(body).resource_metrics
    sent = {metric.name: metric for scope in of_server.scope_metrics for metric in scope.metrics}
    collector = ServerCollector(herd.pid)
    families = [family for family in collector.collect() if family.samples]
    assert set(sent) == {
        "pasture_seal_info" if family.type == "info" else family.name for family in families
    }
    (workers,) = sent["pasture_workers"].gauge.data_points
    assert workers.as_double == 2
    points = sent["pasture_process_private_bytes"].gauge.data_points
    roles = [{one.key: one.value.string_value for one in p.attributes}["role"] for p in points]
    assert sorted(roles) == ["master", "worker", "worker"]
    assert sent["pasture_worker_starts"].sum.is_monotonic
