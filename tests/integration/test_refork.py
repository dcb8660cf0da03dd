"""`pasture run --refork ... gunicorn`: generations, signals in each of them, and failures."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from generations import (
    CLIENTS,
    REFORKED,
    assert_ends_without_a_trace,
    assert_port_is_free,
    at_any_price,
    load,
    mold_of,
    processes,
    refork,
    refork_once,
    roles,
    serve_until,
    wait_for_roles,
)
from running import TIMEOUT_S

pytestmark = pytest.mark.once

PROGRAMS = Path(__file__).parent.parent / "programs"


@pytest.fixture
def start(serve, tmp_path):
    """A server whose processes can be found after its end, and that reforks at any price.

    Args of the function: as of `serve`, and the schedule.
    """

    def start(*args, refork="5", workers=2, **more):
        return serve(
            *("--graceful-timeout", "10", *args),
            **{"options": ("--refork", refork), "app": "refork_app:app", **more},
            env=at_any_price(tmp_path),
            workers=workers,
        )

    return start


def test_workers_of_each_generation_are_children_of_the_arbiter_and_have_what_the_last_built(start):
    server, files = start(refork="5,15,25,100000"), []  # none starts while the third is complete
    for generation in (1, 2, 3):
        refork(server, generation, path="/grow")
        wait_for_roles(server, ("mold", generation), *[("worker", generation)] * 2)
        assert set(roles(server)) == set(server.workers())
        answer = server.get("/who")
        assert answer["parent"] == server.process.pid and answer["cache"] == 20_000
        workers = [pid for pid, (role, _) in roles(server).items() if role == "worker"]
        files.append(min(psutil.Process(pid).num_fds() for pid in workers))
    assert files[2] <= files[0], "open files do not pile up"
    statuses = [child.status() for child in psutil.Process(server.process.pid).children()]
    assert psutil.STATUS_ZOMBIE not in statuses and "Traceback" not in server.log
    assert server.log.count(f"next: pasture top {server.process.pid}\n") == 1, "not the mold's pid"
    assert_ends_without_a_trace(server)


def test_the_application_is_loaded_and_warmed_up_with_the_collector_of_a_program(start, tmp_path):
    (tmp_path / "collected.py").write_text(
        "import gc, json\n"
        "now = lambda: [gc.isenabled(), *gc.get_threshold()]\n"
        "seen = [now()]\n"
        "def app(environ, start_response):\n"
        "    made = [[number] for number in range(200_000)]\n"
        "    seen.append(now())\n"
        "    start_response('200 OK', [])\n"
        "    return [json.dumps(seen[:2]).encode()]"
    )
    options = ("--policy", "seal", "--warm", "/", "--refork", "1000")
    server = start(app="collected:app", options=options)
    program = "import gc, json; print(json.dumps([gc.isenabled(), *gc.get_threshold()]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert server.get("/") == [json.loads(done.stdout)] * 2
    assert "collector's thresholds" not in server.log
    assert_ends_without_a_trace(server)


DRAWS = """
import json, os, random, secrets, time

made = []

def app(environ, start_response):
    if not made:
        made.extend((random.Random(), random.Random(os.urandom(16))))
        made.append(random.Random(secrets.randbits(128)))
    start_response("200 OK", [])
    draws = [f"{one.getrandbits(64)}" for one in made]
    time.sleep(0.02)  # the other worker takes the next request
    return [json.dumps({"pid": os.getpid(), "draws": draws}).encode()]
"""


def test_workers_draw_for_themselves_from_generators_that_a_request_before_the_fork_made(
    start, tmp_path
):
    (tmp_path / "draws.py").write_text(DRAWS)
    options = ("--policy", "seal", "--warm", "/", "--refork", "6,1000")
    server, drawn = start(app="draws:app", options=options), []

    def draw():
        with ThreadPoolExecutor(CLIENTS) as clients:
            for answer in clients.map(server.get, ["/"] * CLIENTS):
                drawn.append((answer["pid"], *answer["draws"]))
        return f"{REFORKED}1\n" in server.log

    server.wait_for(draw, "generation 1")
    wait_for_roles(server, ("mold", 1), *[("worker", 1)] * 2)
    workers = {pid for pid, (role, _) in roles(server).items() if role == "worker"}
    server.wait_for(
        lambda: draw() and workers <= {pid for pid, *_ in drawn}, "answers of both workers"
    )
    for number, draws in enumerate(zip(*drawn, strict=True)):
        assert number == 0 or len(set(draws)) == len(draws), f"generator {number}"
    assert_ends_without_a_trace(server)


@pytest.mark.parametrize("policy", ["refork", "seal"])  # which has a warm-up by itself
def test_after_hup_and_usr2_generation_0_has_built_nothing_that_requests_have(
    start, tmp_path, policy
):
    options = ("--policy", policy, "--refork", "5,1000")
    server = start("--pid", str(tmp_path / "pid"), options=options)
    refork(server, 1, path="/grow")
    before = set(server.workers())
    server.send(signal.SIGHUP)
    server.wait_for(lambda: not before & set(server.workers()), "the end of the old workers")
    wait_for_roles(server, ("mold", 0), ("worker", 0), ("worker", 0))
    assert server.get("/who")["cache"] == 0
    server.send(signal.SIGUSR2)
    upgraded = tmp_path / "pid.2"
    server.wait_for(upgraded.exists, "a new pidfile")
    new = int(upgraded.read_text())
    server.wait_for(lambda: len(roles(server, new)) == 3, "workers of the new server")
    assert server.stop() == 0
    assert server.get("/who")["cache"] == 0 and "warm-up: " not in server.log
    assert {psutil.Process(pid).ppid() for pid in processes(server) if pid != new} == {new}
    os.kill(new, signal.SIGTERM)
    psutil.wait_procs([psutil.Process(new)], timeout=TIMEOUT_S)
    assert processes(server) == ()


def test_every_request_is_served_exactly_once_through_the_generations(start, tmp_path):
    server = start(refork="30,60", workers=3)
    answered = serve_until(server, 2)
    served = Counter(line.split()[0] for line in (tmp_path / "served").read_text().splitlines())
    assert len(answered) > 600 and set(served.values()) == {1}
    assert sorted(answered) == sorted(b'{"id": "%s"}' % name.encode() for name in served)
    assert_ends_without_a_trace(server)


@pytest.mark.parametrize("kind", ["Sync", "Threads"])
def test_of_a_workers_class_nothing_is_called_before_its_start_or_in_a_mold(start, kind):
    server = start("-k", f"needy_workers.{kind}", refork="5,15,100000")
    server.send(signal.SIGUSR1)
    for generation in (1, 2):
        refork(server, generation)
        wait_for_roles(server, ("mold", generation), *[("worker", generation)] * 2)
        [mold] = [pid for pid, (role, _) in roles(server).items() if role == "mold"]
        os.kill(mold, signal.SIGUSR1)
        assert load(server, 6)
    assert "Traceback" not in server.log
    assert_ends_without_a_trace(server)


def test_operators_signals_work_in_a_later_generation(start):
    server = start("--timeout", "2", refork="5,1000")
    refork(server, 1)
    wait_for_roles(server, ("mold", 1), *[("worker", 1)] * 2)
    server.send(signal.SIGTTIN)
    wait_for_roles(server, ("mold", 1), *[("worker", 1)] * 3)
    server.send(signal.SIGTTOU)
    wait_for_roles(server, ("mold", 1), *[("worker", 1)] * 2)
    server.send(signal.SIGUSR1)
    with pytest.raises(OSError):
        server.get("/sleep?60")
    server.wait_until_it_logs("WORKER TIMEOUT")
    wait_for_roles(server, ("mold", 1), ("worker", 1), ("worker", 1))
    before = set(server.workers())
    server.send(signal.SIGHUP)
    server.wait_for(lambda: not before & set(server.workers()), "the end of the old workers")
    wait_for_roles(server, ("mold", 0), ("worker", 0), ("worker", 0))
    load(server, 12)
    server.wait_until_it_logs(f"{REFORKED}1", times=2)
    assert_ends_without_a_trace(server)


def test_workers_at_their_request_limit_are_followed_by_workers_of_the_same_mold(start):
    server = start("--max-requests", "12", refork="5,1000")
    refork(server, 1)
    pids = load(server, 60)
    assert len(pids) >= 4
    server.wait_for(lambda: len(roles(server)) == 3, "two workers and a mold")
    assert {generation for _, generation in roles(server).values()} == {1}
    assert_ends_without_a_trace(server)


@pytest.mark.parametrize("ends_by", [signal.SIGTERM, signal.SIGHUP])
def test_the_last_request_of_a_worker_on_its_way_to_a_mold_is_waited_for(start, ends_by):
    server = start(refork="3,1000", workers=1)
    seconds = {signal.SIGTERM: 1.5, signal.SIGHUP: 7.0}[ends_by]  # molds have five to end
    for _ in range(3):
        server.get("/who")
    answers = []
    client = threading.Thread(target=lambda: answers.append(server.get(f"/sleep?{seconds}")))
    client.start()
    server.wait_for(lambda: "sleeps" in server.log, "a request in the worker")
    slow = server.workers()
    server.wait_until_it_logs("is to become the mold")
    server.send(ends_by)
    client.join()
    assert server.stop() == 0
    assert answers[0]["pid"] in slow and processes(server) == ()


FAILURES = {
    "dies": "its mold ended before it was ready",
    "hangs": "its mold was not ready after",
    "raises": "the queue does not answer",
    "kills its forks": "the second fork failed",
    "broken worker": "its first worker ended before it had proven itself",
}

BROKEN_WORKER = """
def post_fork(server, worker):
    import refork_app
    if refork_app.mood() == "broken worker" and refork_app.molds > 1:
        raise RuntimeError("this worker is broken on purpose")
"""


LOOKS_LATE = """
import time

def on_starting(server):
    reap = server.reap_workers
    def reap_late():
        time.sleep(0.3)
        reap()
    server.reap_workers = reap_late
"""


def test_why_a_mold_refused_is_heard_though_it_has_ended_meanwhile(start, tmp_path):
    server = start(refork="5,30", conf=LOOKS_LATE)
    refork_once(server)
    (tmp_path / "mood").write_text("raises")
    server.wait_for(
        lambda: load(server, 6) and "refork to generation 2 failed" in server.log, "the refusal"
    )
    assert FAILURES["raises"] in server.log


@pytest.mark.parametrize("mood", FAILURES)
def test_when_a_mold_fails_the_generation_before_goes_on(start, tmp_path, mood):
    times = ("--timeout", "2", "--graceful-timeout", "1")
    server = start(*times, refork="5,30", conf=BROKEN_WORKER)
    refork_once(server)
    (tmp_path / "mood").write_text(mood)
    server.wait_for(lambda: load(server, 6) and "refork to generation 2 failed" in server.log, mood)
    assert FAILURES[mood] in server.log
    wait_for_roles(server, ("mold", 1), ("worker", 1), ("worker", 1))
    server.wait_for(
        lambda: set(processes(server)) == {server.process.pid, *roles(server)},
        "the end of what failed",
    )
    assert load(server, 30)
    assert_ends_without_a_trace(server)


@pytest.mark.parametrize(
    ("path", "reported"),
    [
        ("/unsafe", "is no longer safe to fork"),
        ("/thread", "thread exporter does not survive a fork: end it in a function under"),
        ("/connect", "does not survive a fork: close it in a function under @pasture.before_fork"),
    ],
)
def test_a_worker_that_must_not_be_forked_does_not_become_a_mold(start, path, reported):
    server = start(refork="9")
    both = set()  # either may be chosen
    server.wait_for(lambda: both.add(server.get(path)["pid"]) or len(both) == 2, "two answers")
    load(server, 30)
    server.wait_until_it_logs(reported)
    assert load(server, 30)
    server.wait_for(
        lambda: {generation for _, generation in roles(server).values()} == {0},
        "generation 0",
    )
    assert server.stop() == 0 and processes(server) == ()


def test_hup_loads_new_code_and_broken_code_leaves_the_old_one(start, tmp_path):
    source = (tmp_path / "changing.py").write_text
    page = "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'{}']"
    source(page.format('{"pid": 1}'))
    server = start(app="changing:app", refork="1000")
    assert server.get("/") == {"pid": 1}
    source("raise ValueError('broken on purpose')")
    server.send(signal.SIGHUP)
    server.wait_until_it_logs("the old workers go on")
    assert server.get("/") == {"pid": 1}
    source(page.format('{"pid": 22}'))
    server.send(signal.SIGHUP)
    server.wait_for(lambda: server.get("/") == {"pid": 22}, "new code")
    wait_for_roles(server, ("mold", 0), ("worker", 0), ("worker", 0))
    assert_ends_without_a_trace(server)


def test_an_application_that_does_not_load_ends_the_server_with_gunicorns_exit_code(start):
    server = start(app="broken_app:app", ready=False)
    assert server.wait_for_end() in (1, 3)  # gunicorn's own, as it happens
    assert "plain, because the import failed in the parent: broken_app:app" in server.log
    assert processes(server) == ()


@pytest.mark.parametrize(
    ("failure", "status"), [("raise ValueError('of pre_fork')", 255), ("raise SystemExit(7)", 7)]
)
def test_a_pre_fork_that_fails_ends_the_server_as_gunicorn(start, failure, status):
    server = start(conf=f"def pre_fork(server, worker):\n    {failure}\n", ready=False)
    assert server.wait_for_end() == status
    assert server.log.count("mold of generation 0 lost") <= 2, "it is not loaded on and on"
    assert ("ValueError: of pre_fork" in server.log) == ("ValueError" in failure)
    assert processes(server) == ()


def test_at_hup_a_pre_fork_that_fails_leaves_the_old_workers(start, tmp_path):
    bad = tmp_path / "bad"
    conf = (
        f"import os\ndef pre_fork(server, worker):\n    assert not os.path.exists({str(bad)!r})\n"
    )
    server = start(conf=conf, refork="100000")
    bad.touch()
    server.send(signal.SIGHUP)
    server.wait_until_it_logs("no worker can be forked; next try in 10 s")
    assert server.get("/who") and server.stop() == 0
    assert processes(server) == ()


def test_a_server_whose_application_never_loads_can_be_ended(start, tmp_path):
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(600)\n")
    server = start(app="endless:app", ready=False)
    server.wait_for(lambda: len(processes(server)) == 2, "the process that loads")
    assert server.stop() == 0
    assert processes(server) == ()


def test_a_mold_that_is_killed_is_followed_by_another(start):
    server = start(refork="9,30")
    refork_once(server)
    os.kill(mold_of(server), signal.SIGKILL)
    server.wait_until_it_logs("mold of generation 1 lost")
    refork(server, 2)
    assert_ends_without_a_trace(server)


def test_a_mold_that_hangs_is_given_up_when_it_is_needed(start):
    server = start(refork="5,1000")
    refork(server, 1)
    mold = mold_of(server)
    os.kill(mold, signal.SIGSTOP)
    os.kill(next(pid for pid in server.workers() if pid != mold), signal.SIGKILL)
    server.wait_until_it_logs("its mold hangs")
    wait_for_roles(server, ("mold", 0), ("worker", 0), ("worker", 1))
    assert_ends_without_a_trace(server)


@pytest.mark.parametrize("generation", [0, 1])
def test_nothing_survives_the_arbiter(start, generation):
    server = start(refork="5,1000")
    if generation:
        refork(server, 1)
    server.process.kill()
    server.wait_for_end()
    deadline = time.monotonic() + TIMEOUT_S
    while processes(server):
        assert time.monotonic() < deadline, server.log
        time.sleep(0.05)
    assert_port_is_free(server)


@pytest.mark.parametrize("app", ["clients", "site"])
def test_connections_of_threads_that_have_ended_keep_no_worker_from_becoming_a_mold(start, app):
    if app == "site":
        pytest.importorskip("django")
    threads = ("-k", "gthread", "--threads", "3")
    server = start(*threads, refork="9,18", app=f"threads_connections:{app}")
    for generation in (1, 2):
        refork(server, generation)
    assert "failed" not in server.log
    assert_ends_without_a_trace(server)


def test_workers_of_gevent_become_molds_once_their_hub_is_gone(start):
    pytest.importorskip("gevent")
    server, files = start("-k", "gevent", refork="9,200,100000"), []
    answers = []
    client = threading.Thread(target=lambda: answers.append(server.get("/sleep?1")))
    client.start()
    for generation in (1, 2):
        refork(server, generation, path="/grow")
        wait_for_roles(server, ("mold", generation), *[("worker", generation)] * 2)
        answer = server.get("/who")
        assert answer["cache"] == 20_000 and answer["parent"] == server.process.pid
        workers = [pid for pid, (role, _) in roles(server).items() if role == "worker"]
        looks = (psutil.Process(pid).num_fds() for _ in range(5) for pid in workers)
        files.append(min(looks))
    client.join()
    assert answers and files[1] <= files[0]
    server.send(signal.SIGUSR1)
    victim = next(pid for pid, (role, _) in roles(server).items() if role == "worker")
    os.kill(victim, signal.SIGKILL)
    server.wait_for(lambda: victim not in roles(server), "the end of a worker")
    wait_for_roles(server, ("mold", 2), *[("worker", 2)] * 2)
    assert load(server, 30)
    assert "Traceback" not in server.log
    assert_ends_without_a_trace(server)


def test_a_worker_of_gevent_with_a_greenlet_that_goes_on_does_not_become_a_mold(start):
    pytest.importorskip("gevent")
    server = start("-k", "gevent", refork="9")
    for _ in range(8):
        server.get("/greenlet")
    load(server, 30)
    server.wait_until_it_logs("the greenlet sleep does not survive a fork")
    assert load(server, 30)
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("args", "reported"),
    [
        (("--reload",), "no refork: --reload"),
        (("--reuse-port",), "no refork: with reuse_port"),
    ],
)
def test_where_reforks_are_impossible_the_log_says_so(start, args, reported):
    server = start(*args)
    assert reported in server.log
    assert load(server, 30)
    assert server.stop() == 0


def test_a_trial_compares_reforks_with_other_policies(tmp_path):
    # Long enough that the refork at 50 is over at the end, and no other one has started.
    command = [
        *(sys.executable, "-m", "pasture", "try", "refork_app:app", "--policy", "stock"),
        *("--policy", "refork", "--url", "/serve", "-n", "2000", "-w", "2"),
        *("--env", "PASTURE_REFORK=50,100000"),
        *("--json", tmp_path / "report.json", "--log-dir", tmp_path / "logs"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(PROGRAMS)}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "report.json").read_text())["policies"]["refork"]
    assert len(found["workers"]) == 2 and found["failures"] == 0
    log = (tmp_path / "logs" / "refork-1.server.log").read_text()
    assert REFORKED + "1" in log
    seen = sum(worker["pss_bytes"] for worker in found["workers"]) + found["parent"]["pss_bytes"]
    assert found["total_pss_bytes"] > seen, "the mold counts in the total, and as no worker"


LOADS_SLOWLY = """
import os, time
with open("loading", "w") as file:
    file.write(str(os.getpid()))
while not os.path.exists("loads"):
    time.sleep(0.01)
os.unlink("loads")
from refork_app import app
"""


def test_a_mold_that_is_killed_while_it_loads_is_started_again(start, tmp_path):
    (tmp_path / "slow.py").write_text(LOADS_SLOWLY)
    server = start(app="slow:app", workers=1, ready=False)
    for time_, number in ((1, signal.SIGKILL), (2, signal.SIGTERM)):  # at the start, and at HUP
        kill_who_loads(server, tmp_path, number)
        server.wait_until_it_logs("the mold that loads the application was ended by", times=time_)
        (tmp_path / "loads").touch()
        server.wait_until_it_logs("pasture: worker", times=time_)
        wait_for_roles(server, ("mold", 0), ("worker", 0))
        assert server.get("/who")["parent"] == server.process.pid
        (tmp_path / "loading").unlink()
        if time_ == 1:
            server.send(signal.SIGHUP)
    assert "cannot be loaded" not in server.log and "Traceback" not in server.log
    assert_ends_without_a_trace(server)


def test_a_mold_that_is_stopped_while_it_loads_is_ended_and_started_again(start, tmp_path):
    (tmp_path / "slow.py").write_text(LOADS_SLOWLY)
    server = start("--timeout", "1", app="slow:app", workers=1, ready=False)
    kill_who_loads(server, tmp_path, signal.SIGSTOP)
    server.wait_until_it_logs("the mold that loads the application is stopped")
    (tmp_path / "loads").touch()
    wait_for_roles(server, ("mold", 0), ("worker", 0))
    assert server.get("/who")["parent"] == server.process.pid
    assert_ends_without_a_trace(server)


def kill_who_loads(server, folder, number):
    def loading():
        return (folder / "loading").exists() and (folder / "loading").read_text()

    server.wait_for(loading, "a process that loads the application")
    os.kill(int(loading()), number)
