"""Celery's prefork pool under a seal, with a real Redis as broker and for the results."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from running import TIMEOUT_S, Running, environment

from matrix.redis_server import redis_server
from pasture.proc.tree import is_running

celery = pytest.importorskip("celery")
redis = pytest.importorskip("redis")

PROGRAMS = Path(__file__).parent.parent / "programs"
SEALED = "pasture: policy seal on "
MANY = 60_000
"""Records, where memory counts."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Address of a Redis of this module's own."""
    try:
        with redis_server(tmp_path_factory.mktemp("redis")) as address:
            yield address
    except subprocess.CalledProcessError as error:
        pytest.skip(f"Redis cannot be had: {error}")


class Worker(Running):
    """A Celery worker and a client of its tasks."""

    def __init__(self, command, directory, broker, env):
        super().__init__(command, directory / "celery.log", {**env, "HERD_BROKER": broker})
        self.folder = Path(tempfile.mkdtemp(dir=directory))
        self.app = celery.Celery("client", broker=broker, backend=broker)

    def send(self, task, *args):
        return self.app.send_task(f"herd_tasks.{task}", args=args)

    def call(self, task, *args):
        return self.send(task, *args).get(timeout=TIMEOUT_S)

    def destroy(self):
        super().destroy()
        self.app.close()


@pytest.fixture
def work(tmp_path, broker):
    workers = []
    redis.Redis.from_url(broker).flushall()  # what was left of a test before is in no one's way

    def start(*args, options=(), plain=False, env=None, ready=True, conf=None, records=100):
        begin = ["celery"] if plain else ["pasture", "run", *options, "celery"]
        command = [sys.executable, "-m", *begin, "-A", "herd_tasks", "worker", "-c", "2"]
        worker = Worker(
            [*command, "-l", "INFO", *args],
            tmp_path,
            broker,
            environment(
                {
                    "PYTHONPATH": str(PROGRAMS),
                    "HERD_CONF": json.dumps(conf or {}),
                    "HERD_RECORDS": str(records),
                    **(env or {}),
                }
            ),
        )
        workers.append(worker)
        if ready:
            worker.wait_for(lambda: " ready." in worker.log, "a start")
        return worker

    yield start
    for worker in workers:
        print(f"--- log of Celery\n{worker.log}")
        worker.destroy()


def read_with_all(worker, count=6):
    """Answers of `read` that keep each pool process busy, so that all take part."""
    results = [worker.send("read", 0.3) for _ in range(count)]
    return [result.get(timeout=TIMEOUT_S) for result in results]


@pytest.mark.immortality
def test_pool_processes_share_what_they_read_and_so_does_the_next_after_a_kill(work):
    plain = work(options=("--policy", "stock"), records=MANY)
    stock = min(answer["private"] for answer in read_with_all(plain))
    assert plain.stop() == 0
    worker = work(records=MANY)
    first = read_with_all(worker)
    killed = first[0]["pid"]
    os.kill(killed, signal.SIGKILL)
    worker.wait_for(
        lambda: killed not in worker.children() and len(worker.children()) == 2, "a replacement"
    )
    second = read_with_all(worker)
    assert killed not in {answer["pid"] for answer in second}
    assert max(answer["private"] for answer in first + second) < stock / 2
    assert worker.log.count(SEALED) == 1
    assert worker.stop() == 0


@pytest.mark.once
def test_no_task_is_lost_when_a_pool_process_is_killed(work):
    worker = work()
    worker.call("add", 0, 0)
    results = [worker.send("add", i, 1, 0.05) for i in range(40)]
    for _ in range(3):
        time.sleep(0.3)
        os.kill(min(worker.children()), signal.SIGKILL)
        worker.wait_for(lambda: len(worker.children()) == 2, "a replacement")
    assert [result.get(timeout=TIMEOUT_S) for result in results] == list(range(1, 41))


@pytest.mark.once
def test_no_pool_process_outlives_a_killed_worker(work):
    worker = work()
    worker.call("add", 0, 0)
    pool = worker.children()
    worker.process.kill()
    worker.process.wait()
    deadline = time.monotonic() + TIMEOUT_S
    while any(is_running(pid) for pid in pool):
        assert time.monotonic() < deadline, pool
        time.sleep(0.1)


@pytest.mark.once
def test_max_tasks_per_child_replaces_from_the_sealed_parent(work):
    worker = work("--max-tasks-per-child", "2")
    pids = {answer["pid"] for answer in read_with_all(worker, 12)}
    assert len(pids) >= 4
    assert worker.log.count(SEALED) == 1


@pytest.mark.once
def test_pool_processes_are_counted_and_no_count_is_lost_with_one(work):
    worker = work()
    worker.call("add", 1, 2)
    before = worker.wait_for_starts(2)
    assert set(before.entries) == worker.children()
    assert before.seal.policy == "seal"
    assert {entry.requests for entry in before.entries.values()} == {None}
    killed = min(worker.children())
    os.kill(killed, signal.SIGKILL)
    worker.wait_for(
        lambda: killed not in worker.children() and len(worker.children()) == 2, "a replacement"
    )
    worker.call("add", 1, 2)
    after = worker.wait_for_starts(3)
    assert set(after.entries) == worker.children()
    assert after.total.pause_ns >= before.total.pause_ns


@pytest.mark.once
def test_one_import_in_the_application_is_enough(work):
    worker = work(plain=True, env={"HERD_SWITCH": "1"})
    assert "policy seal on " in worker.log
    assert worker.call("add", 1, 2) == 3


@pytest.mark.once
def test_celery_without_the_import_is_not_touched(work):
    assert "policy" not in work(plain=True).log


@pytest.mark.once
def test_autoscaling_forks_from_the_sealed_parent(work):
    worker = work("--autoscale", "4,1")
    answers = read_with_all(worker, 12)
    assert len({answer["pid"] for answer in answers}) > 1
    assert worker.log.count(SEALED) == 1


@pytest.mark.once
def test_the_memory_limit_counts_private_memory(work):
    """100 MB: a sealed process's RSS is above it at once, its private memory only later."""
    worker = work("--max-memory-per-child", "100000", records=MANY)
    rss = psutil.Process(min(worker.children())).memory_info().rss
    for _ in range(6):
        worker.call("keep", 1)
    assert "recycling" not in worker.log
    before = worker.children()
    worker.call("keep", 120)
    worker.wait_for(lambda: worker.children() != before, "a replacement")
    assert "private memory of " in worker.log and "passes this worker's limit of" in worker.log
    assert worker.call("add", 1, 2) == 3
    assert rss > 50_000_000


def test_a_restart_seals_again_and_loses_no_task(work):
    worker = work()
    results = [worker.send("add", i, 1, 0.05) for i in range(20)]
    worker.process.send_signal(signal.SIGHUP)
    worker.wait_for(lambda: worker.log.count(SEALED) == 2, "a second seal")
    worker.wait_for(lambda: worker.log.count(" ready.") == 2, "a second start")
    assert [result.get(timeout=TIMEOUT_S) for result in results] == list(range(1, 21))
    assert worker.stop() == 0


@pytest.mark.parametrize("pool", ["solo", "threads"])
@pytest.mark.once
def test_a_pool_that_does_not_fork_is_refused(work, pool):
    worker = work("--pool", pool, ready=False)
    assert worker.process.wait(TIMEOUT_S) == 2
    assert "does not fork: there is nothing to share" in worker.log
    assert "Traceback" not in worker.log


@pytest.mark.once
def test_a_pool_that_does_not_fork_is_a_warning_for_the_import(work):
    worker = work("--pool", "solo", plain=True, env={"HERD_SWITCH": "1"})
    assert "not sealed: the pool 'solo' does not fork" in worker.log
    assert worker.call("add", 1, 2) == 3


SPAWN = {"conf": {"worker_pool_start_method": "spawn", "task_track_started": True}}
spawns = pytest.mark.skipif(celery.VERSION < (5, 7), reason="this Celery always forks")


def outcomes(worker):
    """What tasks come to, whose processes fail, are killed, or are stopped."""

    def outcome(result):
        try:
            return result.get(timeout=TIMEOUT_S)
        except Exception as error:
            return type(error).__name__

    send = worker.send
    found = [
        outcome(result)
        for result in (
            send("add", 1, 2),
            send("retry_twice"),
            send("add", 1, "x"),
            worker.app.send_task("herd_tasks.add", args=(0, 0, 30), soft_time_limit=1),
            worker.app.send_task("herd_tasks.add", args=(0, 0, 30), time_limit=1),
            worker.app.send_task("herd_tasks.end_once", args=(str(worker.folder / "ended"),)),
        )
    ]
    revoked = send("add", 0, 0, 30)
    worker.wait_for(lambda: revoked.state == "STARTED", "a start")
    worker.app.control.revoke(revoked.id, terminate=True)
    found.append(outcome(revoked))
    last = send("add", 7, 8, 1)
    worker.wait_for(lambda: last.state == "STARTED", "a start")
    found += [worker.stop(), outcome(last)]
    return found


@spawns
@pytest.mark.once
def test_tasks_of_a_spawned_pool_come_to_the_same(work):
    plain = outcomes(work("--max-tasks-per-child", "3", plain=True, **SPAWN))
    worker = work("--max-tasks-per-child", "3", **SPAWN)
    assert outcomes(worker) == plain
    assert plain[:7] == [
        *(3, 2, "TypeError", "SoftTimeLimitExceeded", "TimeLimitExceeded", "ended"),
        "TaskRevokedError",
    ]
    assert plain[7:] == [0, 15]
    assert worker.log.count(SEALED) == 1 and "spawned, not forked" not in worker.log


@spawns
@pytest.mark.once
def test_a_cold_shutdown_of_a_spawned_pool_ends_alike(work):
    ends = []
    for plain in (True, False):
        worker = work(plain=plain, **SPAWN)
        running = worker.send("add", 0, 0, 30)
        worker.wait_for(lambda running=running: running.state == "STARTED", "a start")
        pool = worker.children()
        worker.process.send_signal(signal.SIGQUIT)
        ends.append((worker.wait_for_end(), running.state))
        deadline = time.monotonic() + TIMEOUT_S
        while left := {*filter(is_running, pool)}:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
    assert ends[0] == ends[1]


@spawns
@pytest.mark.immortality
def test_a_spawned_pool_shares_as_a_forked_one(work):
    private = []
    for given in ({}, SPAWN):
        worker = work(**given, records=MANY)
        private.append(max(answer["private"] for answer in read_with_all(worker)))
        assert worker.stop() == 0
    assert private[1] < private[0] + 4_000_000


@spawns
@pytest.mark.once
def test_a_limit_of_private_memory_needs_a_pool_that_forks(work):
    worker = work(options=("--max-uss", "100M"), ready=False, **SPAWN)
    assert worker.process.wait(TIMEOUT_S) == 2
    assert "--max-uss counts in pool processes that this one forks" in worker.log


@pytest.mark.once
def test_an_unknown_policy_is_reported_without_a_traceback(work):
    worker = work(plain=True, env={"HERD_SWITCH": "1", "PASTURE_POLICY": "seel"}, ready=False)
    assert worker.process.wait(TIMEOUT_S) == 4
    assert "did you mean seal?" in worker.log and "Traceback" not in worker.log
