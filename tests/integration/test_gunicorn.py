"""`pasture run gunicorn`: what is sealed, when, and what the workers keep shared."""

import importlib.util
import json
import os
import signal
import time
from pathlib import Path

import pytest
from running import TIMEOUT_S

from pasture import _native

MB = 1_000_000
PROGRAMS = Path(__file__).parents[1] / "programs"
SEALED = "pasture: policy seal on "


def kill_one_worker(server, pid):
    """Kill a worker and return the pid of the one that comes in its place."""
    before = set(server.workers())
    os.kill(pid, signal.SIGKILL)
    server.wait_for(lambda: len(set(server.workers()) - before) == 1, "a new worker")
    server.wait_until_it_logs("Booting worker", times=len(before) + 1)
    [new] = set(server.workers()) - before
    return new


@pytest.mark.interpreter
def test_the_heap_is_sealed_once_after_loading_and_before_the_first_worker(serve, tmp_path):
    server = serve(env={"PASTURE_REPORT_FILE": str(tmp_path / "report")})
    assert server.get("/who")["pid"] in server.workers()
    assert server.log.count(SEALED) == 1
    assert server.log.index(SEALED) < server.log.index("Booting worker")
    assert "preload is on" in server.log
    report = json.loads((tmp_path / "report").read_text())
    assert report["sealed"] is True
    assert report["plugged_bytes"] > 0
    assert (report["objects"] > 300_000) == _native.HAS_IMMORTALITY


def test_requests_of_the_warm_up_are_served_by_the_master(serve, tmp_path):
    (tmp_path / "warm").write_text("GET /collector\nX-Token: 1\n")
    server = serve(
        options=(
            *("--warm", "/who", "--warm", "/fail", "--warm", "Cookie: a=b"),
            *("--warm-file", str(tmp_path / "warm")),
        )
    )
    assert server.get("/who")["served_by"][:3] == [server.process.pid] * 3
    assert "warm-up: 3 requests, 1 failed" in server.log
    assert "GET /fail: ValueError: this page is broken on purpose" in server.log
    assert server.log.index("warm-up: 3 requests") < server.log.index(SEALED)


DATADOG = """
import os, sys
from functools import cache, partial
from types import SimpleNamespace

def note(what):
    with open(os.environ["NOTES"], "a") as file:
        print(os.getpid(), what, file=file)

runtime = SimpleNamespace(before_fork=partial(note, "[rt"), after_fork_parent=partial(note, "rt]"))
native = SimpleNamespace(get_native_runtime=cache(lambda: runtime))
native.get_native_runtime()
stop, start = partial(note, "[threads"), partial(note, "threads]")
hooks = SimpleNamespace(ddtrace_before_fork=stop, ddtrace_after_in_parent=start)
sys.modules["ddtrace.internal.forksafe"] = hooks
sys.modules["ddtrace.internal.native_runtime"] = native
os.register_at_fork(before=stop, after_in_parent=start)
"""


@pytest.mark.once
def test_ddtrace_is_stopped_for_the_seal_and_again_for_the_fork(serve, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(DATADOG)
    notes = tmp_path / "notes"
    path = os.pathsep.join((str(tmp_path), str(PROGRAMS)))
    server = serve(workers=1, env={"PYTHONPATH": path, "NOTES": str(notes)})

    def of_the_master():
        lines = map(str.split, notes.read_text().splitlines())
        return [what for pid, what in lines if int(pid) == server.process.pid]

    server.wait_for(lambda: of_the_master()[-1] == "threads]", "the fork")
    assert of_the_master() == ["[threads", "[rt", "rt]", "threads]", "[threads", "threads]"]


@pytest.mark.interpreter
@pytest.mark.immortality
def test_a_sealed_worker_reads_and_collects_without_taking_copies(serve):
    server = serve(workers=1)
    before = server.get("/collect")["private_bytes"]
    assert server.get("/read")["private_bytes"] - before < 1 * MB
    assert server.get("/collect")["private_bytes"] - before < 1 * MB


def test_a_stock_worker_takes_copies_so_that_the_test_above_means_something(serve):
    server = serve(workers=1, options=("--policy", "stock"))
    assert server.get("/collect")["private_bytes"] > 10 * MB


@pytest.mark.interpreter
def test_a_worker_that_replaces_a_killed_one_shares_as_much(serve):
    server = serve(workers=1)
    [first] = server.workers()
    private = server.get("/collect")["private_bytes"]
    second = kill_one_worker(server, first)
    replaced = server.get("/collect")
    assert replaced["pid"] == second
    assert replaced["private_bytes"] < private + 2 * MB
    assert server.log.count(SEALED) == 1


@pytest.mark.parametrize(
    "policy",
    ["stock", "freeze", "warm-freeze", pytest.param("seal", marks=pytest.mark.interpreter)],
)
def test_the_collector_of_a_worker_is_on_with_the_users_thresholds(serve, policy):
    server = serve(workers=1, options=("--policy", policy), conf="import gc\ngc.set_threshold(555)")
    state = server.get("/collector")
    assert state["enabled"] is True
    assert state["thresholds"][0] == 555
    assert server.stop() == 0


@pytest.mark.interpreter
def test_workers_with_threads_are_sealed_as_well(serve):
    server = serve("-k", "gthread", "--threads", "4", options=("--warm", "/who"))
    assert server.log.count(SEALED) == 1
    assert server.get("/who")["served_by"][0] == server.process.pid
    assert server.stop() == 0


def test_a_running_thread_leaves_the_heap_unsealed_and_is_named(serve):
    server = serve(env={"HERD_THREAD": "runs"}, options=("--accept", "threads"))
    assert "not sealed (1 other Python thread(s) running: herd-thread (" in server.log
    assert server.get("/who")["pid"] in server.workers()


@pytest.mark.once
def test_a_configuration_of_logging_in_the_application_leaves_the_masters_log_on(serve):
    server = serve(options=("--warm", "/who"), env={"HERD_LOGGING": "1"})
    assert SEALED in server.log and "pasture: probe: 1 request answered" in server.log
    assert server.stop() == 0
    assert "Shutting down: Master" in server.log


def test_under_reload_nothing_is_preloaded_nor_sealed(serve):
    server = serve("--reload")
    assert "no seal: --reload loads the application in each worker" in server.log
    assert SEALED not in server.log
    assert server.get("/who")["pid"] in server.workers()


@pytest.mark.interpreter
def test_much_that_was_loaded_later_is_sealed_before_the_next_worker(serve):
    conf = """
later = []
def child_exit(server, worker):
    later.extend([] for _ in range(50_000))
"""
    server = serve(workers=1, conf=conf)
    second = kill_one_worker(server, server.workers()[0])
    assert server.log.count(SEALED) == 2
    assert "new objects since the seal" in server.log
    private = server.get("/collect")
    assert private["pid"] == second
    third = kill_one_worker(server, second)
    assert server.get("/who")["pid"] == third


def full_collections_after_litter(serve, hook):
    server = serve(workers=1, conf=f"import gc\ngc.set_threshold(100_000, 50, 10)\n{hook}")
    assert server.get("/litter") == {"inside": 0, "between": 0}
    return server.get("/full_collections")


def test_a_full_collection_that_is_nearly_due_runs_between_requests_if_asked_for(serve):
    hook = "from pasture.servers.gunicorn.between_requests import post_request"
    assert full_collections_after_litter(serve, hook) == {"inside": 0, "between": 1}


def test_no_full_collection_runs_between_requests_where_thresholds_were_chosen(serve):
    assert full_collections_after_litter(serve, hook="") == {"inside": 0, "between": 0}


def test_full_collections_run_between_requests_by_themselves_as_far_as_they_are_cheap(serve):
    server = serve(workers=1)
    server.get("/litter")
    deadline = time.monotonic() + TIMEOUT_S
    while server.get("/full_collections")["between"] == 0:
        assert time.monotonic() < deadline, "no collection however much processor time went by"


needs_asgi = pytest.mark.skipif(
    importlib.util.find_spec("gunicorn.workers.gasgi") is None,
    reason="gunicorn before 24 has no worker for ASGI",
)


@needs_asgi
@pytest.mark.parametrize("lifespan", ["each", "warm-up"])
def test_an_asgi_application_is_warmed_up_before_the_seal_and_started_for_it_if_asked(
    serve, lifespan
):
    server = serve(
        "-k", "asgi", options=("--lifespan", lifespan, "--warm", "/a", "--warm", "/b"),
        app="herd_asgi_app:app",
    )  # fmt: skip
    assert "warm-up: 2 requests, 0 failed" in server.log
    assert server.log.index("warm-up: 2 requests") < server.log.index(SEALED)
    answer = server.get("/")
    master = server.process.pid
    assert answer["served_by"] == [master, master, answer["pid"]]
    around = [["startup", master], ["shutdown", master]] if lifespan == "warm-up" else []
    assert answer["life"] == [*around, ["startup", answer["pid"]]]
    assert server.stop() == 0


@needs_asgi
def test_a_lifespan_that_is_run_once_is_the_masters_and_survives_hup(serve):
    server = serve("-k", "asgi", options=("--lifespan", "once"), app="herd_asgi_app:app")
    master = server.process.pid
    first = server.get("/")
    # A worker without handlers loses the TERM of gunicorn's master, which then waits 30 s for it.
    server.wait_for(lambda: server.log.count("ASGI server listening") == 2, "both workers")
    server.process.send_signal(signal.SIGHUP)
    server.wait_for(lambda: server.get("/")["pid"] != first["pid"], "a worker after the HUP")
    for answer in (first, server.get("/")):
        assert answer["life"] == [["startup", master]]
    assert server.stop() == 0
    assert server.log.count(f"ended in {master}") == server.log.count("ended in") == 1


@needs_asgi
@pytest.mark.once
def test_a_lifespan_that_is_run_once_and_fails_ends_the_server_without_a_traceback(serve):
    server = serve(
        *("-k", "uvicorn.workers.UvicornWorker"),
        options=("--lifespan", "once", "--accept", "signals"),
        app="uvicorn_app:app",
        env={"HERD_FAILS": "1"},
        ready=False,
    )
    assert server.wait_for_end() == 5
    assert "error: the application's lifespan: startup: no database" in server.log
    assert "Traceback" not in server.log
