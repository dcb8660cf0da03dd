"""How programs of the bundled site end: out of an image as by `python`.

Each is stopped, reloaded and killed while a request or a task is at work. Compared are the exit
status, the log, the answers, and what is left: files, processes, the port, the queue.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest
from images import BIN, STUB, WAIT_S, Images, until
from psutil import Process
from redis import Redis
from running import free_port, listens, waits_in_select
from test_image_site import PRELOAD, SITE

from matrix.redis_server import redis_server
from pasture_tools.launch.session import Group

pytestmark = [pytest.mark.once, pytest.mark.integration, pytest.mark.timeout(600)]

STARTED = "pasture-python: started from the image"
HELD = '''\
"""The site with a request and two tasks that are at work until a file is there."""
import os, time
from pathlib import Path

from meadow.celery import app
from meadow.wsgi import application as site

app.conf.beat_schedule["stock"]["schedule"] = 3600.0  # not due while beat is started thrice

def hold(name):
    Path(name + ".held").write_text(str(os.getpid()))
    while not os.path.exists(name):
        time.sleep(0.02)
    with open(name + ".done", "a") as file:
        file.write("done ")

@app.task(name="early")
def early(name):
    hold(name)

@app.task(name="late", acks_late=True, reject_on_worker_lost=True)
def late(name):
    hold(name)

def application(environ, start_response):
    if environ["PATH_INFO"] != "/hold":
        return site(environ, start_response)
    hold(environ["QUERY_STRING"])
    start_response("200 OK", [])
    return [b"held"]
'''


class Site:
    """The site's programs by `python` or out of an image, in a folder that is empty at first."""

    def __init__(self, images: Images, broker: str) -> None:
        self._images = images
        self.redis = Redis.from_url(broker)
        self.port = free_port()
        self.folder = images.folder / "run"
        self._by_image = False
        self._ends: dict[str, object] = {}

    def observe(self, scenario: Callable[[Site], object], by_image: bool) -> dict[str, object]:
        self._by_image, self._ends = by_image, {}
        shutil.rmtree(self.folder, ignore_errors=True)
        for folder in (self.folder, self.folder / "tmp", self.folder / "runtime"):
            folder.mkdir(mode=0o700)
        shutil.copy(self._images.folder / "filled.sqlite3", self._images.environ["MEADOW_DB"])
        self.redis.flushall()
        seen = scenario(self)
        return {"seen": seen, **self._ends}

    @contextlib.contextmanager
    def start(self, *words: str) -> Iterator[Group]:
        """A program; at the end of the block it has ended by itself, and what is left is noted."""
        environ = dict(self._images.environ)
        if self._by_image:
            more = {"PASTURE_IMAGE": str(self._images.image), "PASTURE_IMAGE_VERBOSE": "1"}
            environ |= {**more, "PASTURE": "seal"}
        name = f"program {len(self._ends)}"
        log = self._images.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        command = [str(STUB if self._by_image else BIN / "python"), *words]
        with Group(command, log=log, env=environ, cwd=self.folder) as program:
            yield program
            self._ends[name] = self._end_of(program)
        print(f"--- {name}\n{program.log}")
        # Django sets TZ: what Celery starts again has another one, and is python's.
        assert program.log.count(STARTED) == self._by_image, program.log

    def _end_of(self, program: Group) -> dict[str, object]:
        status = program.wait(WAIT_S)
        until(lambda: not program.members(), "processes are left")
        files = (path.relative_to(self.folder) for path in self.folder.rglob("*"))
        return {
            "status": status,
            "log": sorted(lines(program.log)),
            "files": sorted(VARIES.sub("*", str(path)) for path in files),
            "port": listens(self.port),
            "queue": [self.redis.llen("celery"), self.redis.hlen("unacked")],
        }

    def web(self, *words: str) -> contextlib.AbstractContextManager[Group]:
        bind = ("-b", f"127.0.0.1:{self.port}", "-p", "pid", "--preload")
        return self.start("-m", "gunicorn", *bind, *words, "held")

    def celery(self, *words: str) -> contextlib.AbstractContextManager[Group]:
        return self.start(str(BIN / "celery"), "-A", "held", *words)

    def worker(self) -> contextlib.AbstractContextManager[Group]:
        return self.celery("worker", "-c", "2", "-l", "INFO", "--pidfile", "pid")

    def command(self, *words: str) -> contextlib.AbstractContextManager[Group]:
        return self.start(str(SITE / "manage.py"), *words)

    @contextlib.contextmanager
    def follow(self) -> Iterator[Group]:
        """The consumer, while it waits for the next order."""
        with self.command("follow", "--every", "2") as program:
            wchan = Path(f"/proc/{program.pid}/wchan")
            until(lambda: "nanosleep" in wchan.read_text(), "the consumer does not wait")
            yield program

    def database(self) -> contextlib.closing[sqlite3.Connection]:
        return contextlib.closing(sqlite3.connect(self._images.environ["MEADOW_DB"]))

    def ask(self, name: str) -> Future[str]:
        """The answer to a request that is at work when this returns."""
        until(lambda: listens(self.port), "it does not listen")
        asked = THREADS.submit(answer, f"http://127.0.0.1:{self.port}/hold?{name}")
        self.wait_for(f"{name}.held")
        return asked

    def send(self, task: str, name: str) -> None:
        """A task that is at work when this returns, as its worker knows.

        A worker that is stopped before it knows waits for the task: Celery's own race.
        """
        from celery import Celery

        with Celery(broker=self._images.environ["MEADOW_BROKER"]) as app:
            app.send_task(task, args=(name,))
            self.wait_for(f"{name}.held")
            asked = app.control.inspect(limit=1)
            until(lambda: any((asked.active() or {}).values()), "the task is not active")

    def at_work(self, name: str) -> int:
        """Who is: a pid."""
        return int((self.folder / f"{name}.held").read_text())

    def release(self, name: str) -> None:
        (self.folder / name).touch()

    def wait_for(self, file: str) -> None:
        path = self.folder / file
        until(lambda: path.exists() and path.stat().st_size, f"no {file}")


def wait_for_idle_workers(program: Group, number: int, but: int) -> None:
    """Until so many of gunicorn's workers wait for connections, `but` the one that is at work.

    A worker that is stopped before it has its handlers runs on: gunicorn's own race.
    """

    def are_there() -> bool:
        workers = set(program.members()) - {program.pid, but}
        return len(workers) == number and all(map(waits_in_select, workers))

    until(are_there, f"no {number} workers that wait")


THREADS = ThreadPoolExecutor()


def answer(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as found:
            return str(found.read(), "utf-8")
    except (OSError, HTTPException) as error:
        return type(error).__name__


# A thread of gunicorn's starts its control socket, and does not after each fork.
LEFT_OUT = re.compile(r"pasture|Control socket", re.IGNORECASE)
# Celery gives a task to any idle process of its pool, the new one in a lost one's place too.
VARIES = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,\d]*( \+\d{4})?|[0-9a-f]{8}-[0-9a-f-]{27}|0x[0-9a-f]+"
    r"|\d+\.\d+s|\d{2,}|pymp-\w+|(?<=ForkPoolWorker-)\d"
)


def lines(log: str) -> Iterator[str]:
    for line in log.splitlines():
        if line.strip() and not LEFT_OUT.search(line):
            yield VARIES.sub("*", line)


def web_worker_killed_then_reload_then_stop(site: Site) -> object:
    with site.web("-w", "2") as program:
        lost = site.ask("a")
        os.kill(site.at_work("a"), signal.SIGKILL)
        answers = [lost.result()]
        until(lambda: program.log.count("Booting worker") == 3, "no new worker")
        reloaded = site.ask("b")
        wait_for_idle_workers(program, 1, but=site.at_work("b"))
        old = set(program.members()) - {program.pid}
        program.send_signal(signal.SIGHUP)
        until(lambda: program.log.count("Booting worker") == 5, "not reloaded")
        site.release("b")
        answers.append(reloaded.result())
        # The new workers boot before the old ones are stopped: those may take requests till then.
        until(lambda: not old & set(program.members()), "old workers are left")
        stopped = site.ask("c")
        wait_for_idle_workers(program, 1, but=site.at_work("c"))
        program.send_signal(signal.SIGTERM)
        until(lambda: "Handling signal: term" in program.log, "not stopped")
        site.release("c")
        return [*answers, stopped.result()]


def web_and_worker_stopped_at_once(site: Site) -> object:
    with site.worker() as program:
        site.send("late", "a")
        program.send_signal(signal.SIGQUIT)
    with site.web("-w", "1") as program:
        lost = site.ask("b")
        program.send_signal(signal.SIGQUIT)
        return lost.result()


def pool_process_killed_then_worker_stopped(site: Site) -> object:
    with site.worker() as program:
        site.send("early", "a")
        os.kill(site.at_work("a"), signal.SIGKILL)
        until(lambda: "WorkerLostError" in program.log, "the loss is not noticed")
        site.send("late", "b")
        program.send_signal(signal.SIGTERM)
        until(lambda: "Warm shutdown" in program.log, "not stopped")
        site.release("b")
    return (site.folder / "b.done").read_text()


def worker_reloaded(site: Site) -> object:
    with site.worker() as program:
        site.send("late", "a")
        program.send_signal(signal.SIGHUP)
        until(lambda: "Restarting celery worker" in program.log, "not restarted")
        site.release("a")
        until(lambda: program.log.count(" ready.") == 2, "not ready")
        site.send("late", "b")
        site.release("b")
        site.wait_for("b.done")
        program.send_signal(signal.SIGTERM)
    return (site.folder / "a.done").read_text()


def beat_killed_then_stopped(site: Site) -> object:
    """The second one finds the schedule and the pid file of the first."""
    words = ("beat", "-s", "schedule", "--pidfile", "beat.pid", "-l", "INFO")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        with site.celery(*words) as program:
            until(lambda: "beat: Starting" in program.log, "not started")
            site.wait_for("schedule")
            time.sleep(1)
            program.send_signal(number)


def consumer_stopped_and_loses_its_table(site: Site) -> object:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        with site.follow() as program:
            program.send_signal(number)
    with site.follow(), site.database() as database:
        database.execute("alter table orders_order rename to gone")


def command_stopped_and_failed(site: Site) -> object:
    """Stopped while the database is locked."""
    with site.database() as database:
        database.execute("begin exclusive")
        with site.command("takings") as program:
            opened = Process(program.pid).open_files
            until(lambda: "db.sqlite3" in str(opened()), "the database is not asked")
            program.terminate()
        database.rollback()
        database.execute("alter table orders_order rename to gone")
    with site.command("takings"):
        pass


PROGRAMS = ("web_", "pool_", "worker_", "beat_", "consumer_", "command_")
SCENARIOS = [one for name, one in list(globals().items()) if name.startswith(PROGRAMS)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    images = Images(tmp_path_factory.mktemp("ends"))
    images.module("held", HELD)
    with redis_server(images.folder) as broker:
        images.environ |= {
            "PYTHONPATH": f"{images.lib}:{SITE}",
            "DJANGO_SETTINGS_MODULE": "meadow.settings",
            "MEADOW_BROKER": broker,
            "MEADOW_DB": f"{images.folder}/db.sqlite3",
            "TMPDIR": f"{images.folder}/run/tmp",
            "XDG_RUNTIME_DIR": f"{images.folder}/run/runtime",
        }
        filled = {"MEADOW_DB": f"{images.folder}/filled.sqlite3"}
        assert images.python(str(SITE / "manage.py"), "migrate", environ=filled).status == 0
        names = ("DJANGO_SETTINGS_MODULE", "MEADOW_BROKER", "MEADOW_DB", "TMPDIR")
        (images.folder / "run" / "runtime").mkdir(0o700, parents=True)  # gunicorn looks at it
        images.built("--preload", f"held,{PRELOAD}", *(f"--env={name}" for name in names))
        yield Site(images, broker)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_program_ends_as_by_python(site: Site, scenario: Callable[[Site], object]) -> None:
    by_python = site.observe(scenario, by_image=False)
    by_image = site.observe(scenario, by_image=True)
    assert json.dumps(by_image, indent=1) == json.dumps(by_python, indent=1)
