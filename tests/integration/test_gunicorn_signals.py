"""What operators do to a running gunicorn works under the seal."""

import os
import signal
import threading

import psutil
import pytest
from running import TIMEOUT_S

pytestmark = pytest.mark.usefixtures("small_herd")

SEALED = "pasture: policy seal on "


@pytest.mark.once
def test_workers_are_added_and_taken_away(serve):
    server = serve(workers=1)
    server.send(signal.SIGTTIN)
    server.wait_for(lambda: len(server.workers()) == 2, "a second worker")
    server.send(signal.SIGTTOU)
    server.wait_for(lambda: len(server.workers()) == 1, "one worker less")
    assert server.get("/who")["pid"] in server.workers()
    assert server.log.count(SEALED) == 1


@pytest.mark.once
def test_hup_replaces_the_workers_and_reads_the_configuration_again(serve, tmp_path):
    server = serve(workers=2, conf="raw_env = ['HERD=1']")
    before = set(server.workers())
    (tmp_path / "gunicorn.conf.py").write_text(
        "def post_fork(server, worker):\n    server.log.info('a hook that is new')\n"
    )
    server.send(signal.SIGHUP)
    server.wait_until_it_logs("a hook that is new", times=2)
    server.wait_for(lambda: not before & set(server.workers()), "the end of the old workers")
    assert server.get("/who")["pid"] not in before
    assert server.log.count(SEALED) == 1
    assert server.stop() == 0


def test_term_lets_a_request_finish(serve):
    server = serve(workers=1)
    answers = []
    client = threading.Thread(target=lambda: answers.append(server.get("/sleep?1.0")))
    client.start()
    server.wait_for(lambda: "sleeps" in server.log, "a request in the worker")
    assert server.stop(signal.SIGTERM) == 0
    client.join()
    assert len(answers) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
@pytest.mark.once
def test_a_quick_shutdown_ends_with_status_0(serve, number):
    server = serve()
    workers = server.workers()
    assert server.stop(number) == 0
    assert not any(psutil.pid_exists(pid) for pid in workers)


@pytest.mark.once
def test_workers_end_with_status_0_at_their_request_limit(serve):
    server = serve("--max-requests", "3", workers=1)
    pids = {server.get("/who")["pid"] for _ in range(10)}
    assert len(pids) >= 3
    assert "exited with code" not in server.log
    assert server.log.count(SEALED) == 1


@pytest.mark.once
def test_a_hanging_worker_is_replaced(serve):
    server = serve("--timeout", "1", workers=1)
    [hanging] = server.workers()
    with pytest.raises(OSError):
        server.get("/sleep?60")
    server.wait_for(lambda: server.workers() not in ([], [hanging]), "a new worker")
    assert "WORKER TIMEOUT" in server.log
    assert server.get("/who")["pid"] != hanging


@pytest.mark.once
def test_usr2_starts_a_new_master_that_seals_again(serve, tmp_path):
    pidfile = tmp_path / "pid"
    server = serve("--pid", str(pidfile), workers=1, options=("--policy", "seal", "--warm", "/who"))
    server.send(signal.SIGUSR2)
    server.wait_until_it_logs(SEALED, times=2)
    upgraded = tmp_path / "pid.2"
    server.wait_for(upgraded.exists, "a new pidfile")
    new_master = int(upgraded.read_text())
    try:
        server.wait_for(lambda: server.workers(new_master), "a worker of the new master")
        server.send(signal.SIGTERM)
        assert server.wait_for_end() == 0
        assert server.get("/who")["pid"] in server.workers(new_master)
        assert server.log.count("warm-up: 1 requests, 0 failed") == 2
    finally:
        family = [psutil.Process(new_master)]
        family += family[0].children()
        os.kill(new_master, signal.SIGTERM)
        _, left = psutil.wait_procs(family, timeout=TIMEOUT_S)
        for process in left:
            process.kill()
    assert left == []


FAILS_ONE_AFTER_THE_OTHER = """
import signal, time

def post_fork(server, worker):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(0.4 * worker.age)
    raise RuntimeError("on purpose")
"""


@pytest.mark.parametrize(
    "options",
    [(), pytest.param(("--refork", "50"), marks=pytest.mark.once)],  # gunicorn 23 is on 3.11
)
def test_the_exit_status_of_workers_that_cannot_boot_is_gunicorns_however_many_they_are(
    serve, options
):
    server = serve(options=options, conf=FAILS_ONE_AFTER_THE_OTHER, workers=3, ready=False)
    assert server.wait_for_end() == 3
    assert "Reason: Worker failed to boot." in server.log
    assert "HaltServer" not in server.log and server.members() == ()
