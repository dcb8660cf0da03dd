"""A master whose warm-up does what it should not: it starts, serves, and ends when asked."""

import re
import signal
import urllib.request

import pytest
from running import TIMEOUT_S

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("small_herd")]


def who(server):
    url = f"http://127.0.0.1:{server.port}/who"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return int(answer.read())


def warm(*paths, others=()):
    return (*(word for path in paths for word in ("--warm", path)), *others)


@pytest.mark.parametrize(
    ("number", "page"),
    [(signal.SIGINT, "/hang"), (signal.SIGTERM, "/stubborn"), (signal.SIGQUIT, "/hang")],
)
def test_a_signal_ends_a_master_whose_warm_up_hangs(serve, tmp_path, number, page):
    server = serve(
        *("--pid", str(tmp_path / "pid")),
        options=warm(page, "/who"),
        app="hostile_app:app",
        ready=False,
    )
    server.wait_until_it_logs(f"pasture: warm-up: GET {page}\n")
    assert server.stop(number) == 0
    assert "warm-up: GET /who" not in server.log and "Booting worker" not in server.log
    assert not (tmp_path / "pid").exists()


def test_a_page_that_calls_its_own_server_is_stopped_and_the_server_starts(serve):
    server = serve(
        options=warm("/call_itself", others=("--warm-total-timeout", "1")),
        app="hostile_app:app",
        env={"HERD_ADDRESS": "127.0.0.1:{port}"},
    )
    assert who(server) in server.workers()
    assert "GET /call_itself: no answer in 1 s, stopped in " in server.log
    assert "warm-up: 1 requests, 1 failed" in server.log
    assert server.stop() == 0


def test_a_page_that_takes_all_signals_away_does_not_keep_the_master_from_ending(serve):
    server = serve(options=warm("/handlers"), app="hostile_app:app")
    assert "GET /handlers changed the handler of SIGHUP, " in server.log
    assert who(server) in server.workers()
    assert server.stop() == 0


def test_a_page_that_forks_leaves_one_master(serve):
    server = serve(options=warm("/fork", "/who"), app="hostile_app:app")
    assert "a process forked by GET /fork returned from it and ends here" in server.log
    server.wait_for(lambda: len(server.workers()) == 2, "two workers and no other process")
    assert server.log.count("Booting worker") == 2
    assert server.log.count("warm-up: 2 requests") == 1
    assert server.stop() == 0


def test_no_exception_of_a_page_ends_the_master(serve):
    server = serve(options=warm("/cancelled", "/who"), app="hostile_app:app")
    assert server.log.count("GET /cancelled: CancelledError") == 1
    assert who(server) in server.workers()


def test_a_warm_up_that_takes_too_long_is_given_up(serve):
    server = serve(
        options=warm("/hang", "/who", others=("--warm-total-timeout", "1")),
        app="hostile_app:app",
    )
    assert "the time is over, 1 requests were not served" in server.log
    assert who(server) in server.workers()


def test_a_mold_whose_warm_up_hangs_ends_with_its_server(serve):
    server = serve(
        options=("--policy", "seal", "--refork", "50", *warm("/hang")),
        app="hostile_app:app",
        ready=False,
    )
    server.wait_until_it_logs("pasture: warm-up: GET /hang\n")
    assert server.stop() == 0


def test_a_factory_that_workers_of_a_class_call_is_left_to_them(serve):
    """Called as an application, in the parent, it began a heartbeat for each request."""
    server = serve(
        *("-k", "factory_app.FactoryWorker"),
        options=("--warm", "/", "--warm", "/again", "--lifespan", "once"),
        app="factory_app:make",
    )
    left_out = "how workers of the class factory_app.FactoryWorker call the application is unknown"
    assert f"warm-up: left out: {left_out}\n" in server.log
    server.wait_for(lambda: server.log.count("made in") >= 2, "two applications")
    made = re.findall(r"made in (\d+) of (\d+) arguments", server.log)
    assert {int(pid) for pid, _ in made} == set(server.workers()) and len(made) == 2
    assert {count for _, count in made} == {"0"}
    assert "is not an ASGI application: it has no lifespan" in server.log
    assert server.log.count("runs in") == 2  # no probe has taken the place of one
    assert server.stop() == 0
