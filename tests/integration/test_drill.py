"""An operator's drill: something goes wrong, and each tool names the right cause first.

`make drill` does it with each engine, and shows the words of the log, `top`, `doctor`, `explain`,
and of the alerts in a real Prometheus, which waits for seconds where examples/prometheus/alerts.yml
has minutes. `make test` does it with gunicorn. The servers run in a control group with a limit,
where one can be made.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import celery
import pytest
from running import PASTURE_RUN, TIMEOUT_S, Running, environment, free_port, pasture

from matrix.engines.environments import python_for
from matrix.redis_server import redis_server
from pasture.errors import NotMeasurable
from pasture.proc import tree
from pasture.proc.cgroup import read_usage
from pasture_lab.processes.cgroup import memory_group
from tests.integration.test_metrics import (
    PROGRAMS,
    REPOSITORY,
    ask,
    export,  # noqa: F401  a fixture
    port_of,
    prometheus,  # noqa: F401
)

pytestmark = [pytest.mark.once, pytest.mark.timeout(600)]

ALL = "DRILL" in os.environ
LIMIT_BYTES = 800_000_000
ENOUGH = 320
"""Requests after which a worker is judged."""

GUNICORN = "gunicorn --bind 127.0.0.1:{port} -w 2 --timeout 600 drill_app:app"
ENGINES = {
    "gunicorn": GUNICORN,
    "gunicorn that reforks": f"--refork 3 {GUNICORN}",
    "uvicorn": "uvicorn --port {port} --workers 2 drill_app:asgi",
    "uwsgi": "uwsgi --http-socket 127.0.0.1:{port} --master --processes 2 --module drill_app:app",
    "celery": "celery -A drill_app:tasks worker -c 2",
    "granian": "granian --interface wsgi --port {port} --workers 2 --respawn-failed-workers "
    "drill_app:app",
}
"""Words behind `pasture run`, by what the drill calls the engine."""
LOSES = "import os, subprocess, sys; del os.environ['PASTURE']; subprocess.call(sys.argv[1:])"
STARTER = (sys.executable, "-c", LOSES)
FILLS = 'mount -t tmpfs -o size=64k none "$HOME" && head -c 1M /dev/zero >"$HOME/all"; exec "$@"'


@dataclass(frozen=True)
class Case:
    """One thing that goes wrong, and what the tools say of it first."""

    doctor: str  # its state and first finding, a line each
    alerts: set[str]  # all that are raised
    begin: Callable = lambda server, group: None
    top: str = ""  # its first line below the processes
    explain: str = ""
    log: str = ""  # anywhere
    options: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()  # a program that starts the server
    python: tuple[str, ...] | None = None  # options of Python; None for `pasture run`


def leak(server, group):
    """Until a worker has grown for long: who answers is not ours to choose."""
    while server.ask("/leak")[1] < ENOUGH:
        pass


def write(server, group):
    asked = set()
    while len(asked) < 2:
        asked.add(server.ask("/write")[0])


def hang(server, group):
    for _ in range(2):
        threading.Thread(target=server.ask, args=("/price",), daemon=True).start()
    time.sleep(1)


def need(group):
    if group is None:
        pytest.skip("no control group with a limit of memory can be made here (it takes root)")


def fill(server, group):
    need(group)
    used = read_usage(server.pid)
    held = used.used_bytes - used.idle_file_bytes - used.active_file_bytes
    group.limit(int(held * 1.07))


def eat(server, group):
    need(group)
    for pid in tree.workers_of(server.pid):  # the kernel is to choose one of them
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    threading.Thread(target=server.ask, args=("/eat",), daemon=True).start()
    server.wait_for(group.kills, "a kill")
    server.wait_for(lambda: len(tree.workers_of(server.pid)) >= 2, "a new worker")


def kill(server, group):
    os.kill(server.master, signal.SIGKILL)
    server.wait(TIMEOUT_S)


GROWTH = r"grows by [\d.]+ KB a request since request \d+: looks like a leak"
GROWS = rf"worker \d+ (\(and 1 more\) )?{GROWTH}"
LEFT = r"[\d.]+ MB are left of the limit of [\d.]+ MB"
# The kernel may meet the other worker, too, before the memory of the first is given back.
KILLED = r"under the limit of 800 MB processes were killed for memory: [12]"
LOST = r"workers share \d+% of what the master holds, and have written to the rest"
HOLD = r"workers hold [\d.]+ MB of [\d.]+ MB for themselves, and the master only [\d.]+ MB"
WAITS = r"worker \d+ waits for a lock: pasture doctor --hung"
GONE = r"error: there is no process"
UNLOADED = r"without effect, because PASTURE is set, and \S+ has not loaded pasture: "
UNTOLD = (
    r"without effect, because process \d+ has PASTURE, and starts this one without the variable"
)
UNASKED = "plain, because nothing asks for pasture"
THREAD = "thread refresher of drill_app"
CASES = {
    "a leak": Case(
        f"sealed\n! leak: {GROWS}",
        {"PastureLeak"},
        leak,
        top=GROWS,
        explain=rf"worker \d+ has .*; it {GROWTH}",
        env=(("PASTURE_SNAPSHOT", "{folder}/snapshot"),),
    ),
    "lost sharing": Case(
        f"sealed\n! sharing: {LOST}", {"PastureSharingLost"}, write, top=LOST, explain=LOST
    ),
    "a dead server": Case(GONE, {"PastureServerGone"}, kill, top=GONE, explain=GONE),
    "a hung worker": Case(
        r"sealed\n! hung: process \d+ waits for a lock at drill_app.py:\d+ in price; its parent's "
        r"thread refresher, which it lacks, was at drill_app.py:\d+ in refresh when it was forked",
        {"PastureWorkerHung", "PastureHazard"},
        hang,
        top=WAITS,
        explain=WAITS,
        log=f"hazard: {THREAD} does not survive a fork",
        options=("--accept", "threads"),
        env=(("DRILL_THREAD", "1"),),
    ),
    "memory near its limit": Case(
        f"sealed\n! limit: {LEFT}", {"PastureNearLimit"}, fill, top=LEFT, explain=LEFT
    ),
    "killed for memory": Case(
        f"sealed\n! killed: {KILLED}", {"PastureKilledForMemory"}, eat, top=KILLED, explain=KILLED
    ),
    "another interpreter": Case(
        f"{UNLOADED}.*\n! effect: pasture is {UNLOADED}",
        {"PastureWithoutEffect"},
        env=(("PASTURE", "seal"),),
        python=("-S",),
    ),
    "off": Case("off, because PASTURE=off is set\n", set(), env=(("PASTURE", "off"),)),
    "plain because of a hazard": Case(
        f"plain, because {THREAD}",
        {"PastureNotSealed"},
        env=(("DRILL_THREAD", "1"),),
    ),
    "a full disk": Case(
        "sealed\n- ",
        set(),
        log="No space left on device",
        env=(("PASTURE_SNAPSHOT", "{folder}/full/snapshot"),),
        before=("unshare", "-m", "sh", "-c", FILLS, "sh"),
    ),
    "a lost variable": Case(
        f"{UNTOLD}\n! effect: pasture is {UNTOLD}",
        {"PastureWithoutEffect"},
        env=(("PASTURE", "seal"),),
        before=STARTER,
        python=(),
    ),
    "a missing preload": Case(
        f"{UNASKED}\n! preload: {HOLD}: the application is loaded after the fork",
        {"PastureNotPreloaded"},
        top=HOLD,
        explain=HOLD,
        python=(),
    ),
}
HAZARD = f"hazards: {THREAD} does not survive a fork"
# These load the application before they fork, without pasture too: plain would not help.
PRELOADED = {"doctor": f"sealed\n! {HAZARD}", "alerts": {"PastureHazard"}}
NOT_LATE = {"doctor": f"{UNASKED}\n- ", "alerts": set(), "top": "", "explain": ""}
UNCOUNTED = {"doctor": "sealed\n- ", "alerts": set(), "top": "", "explain": ""}
"""No requests are counted: PastureWorkerGrows says it after an hour."""
SPAWNED = {
    "doctor": f"{UNASKED}\n! preload: 2 workers were started as Python processes of their own"
}
ELSEWHERE = {
    ("uwsgi", "plain because of a hazard"): PRELOADED,
    ("celery", "plain because of a hazard"): PRELOADED,
    ("uwsgi", "a hung worker"): {  # the frames of a fork by C code are not found
        "doctor": r"sealed\n! hung: process \d+ waits for a lock; its parent's thread refresher"
    },
    ("celery", "a leak"): UNCOUNTED,
    ("granian", "a leak"): UNCOUNTED,
    ("granian", "a hung worker"): {  # its threads of Rust wait for requests: the kernel sees work
        "alerts": {"PastureHazard"},
        "top": f"hazard: {THREAD}",
        "explain": "",
    },
    ("granian", "a missing preload"): {**SPAWNED, "explain": ""},
    ("uwsgi", "a missing preload"): NOT_LATE,
    ("celery", "a missing preload"): NOT_LATE,
    ("uvicorn", "a missing preload"): {**SPAWNED, "explain": ""},
}


class Server(Running):
    """A server of the drill, two workers that serve."""

    def __init__(self, engine, case, folder, before, broker):
        self.port = free_port()
        python = sys.executable if engine != "granian" else str(python_for("asgi"))
        words = ENGINES[engine].format(port=self.port).split()
        start = [python, *PASTURE_RUN[1:], *case.options]
        if case.python is not None:
            words = words[words.index("3") + 1 :] if words[0] == "--refork" else words
            start = [python, *case.python, "-m"]
            if engine == "uwsgi":
                start[-1:] = ["-c", "import pyuwsgi; pyuwsgi.run()"]
                del words[0]
        full = folder / "full"
        full.mkdir()
        [packages] = (Path(python).parents[1] / "lib").glob("python3*/site-packages")
        env = {
            "PYTHONPATH": f"{PROGRAMS}:{packages}" if case.python else str(PROGRAMS),
            "HOME": str(full),
            "DRILL_BROKER": broker,
            **{key: value.format(folder=folder) for key, value in case.env},
        }
        command = [*before, *case.before, *start, *words]
        super().__init__(command, folder / "server.log", environment(env))
        self.is_below = case.before == STARTER
        self.tasks = celery.Celery(broker=broker, backend=broker) if broker else None

    @property
    def master(self):
        """Its pid, which is not that of a program that has started it."""
        return next(iter(self.children())) if self.is_below else self.pid

    def ask(self, path):
        """The pid of who answers, and how many leaks it has; zeros without an answer."""
        with suppress(OSError, ValueError, TimeoutError):
            if self.tasks is not None:
                answer = self.tasks.send_task("page", [path]).get(timeout=TIMEOUT_S)
            else:
                url = f"http://127.0.0.1:{self.port}{path}"
                with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
                    answer = response.read()
            pid, count = map(int, answer.split())
            return pid, count
        return 0, 0


@pytest.fixture
def group():
    with ExitStack() as stack:
        try:
            made = stack.enter_context(memory_group())
            made.limit(LIMIT_BYTES)
        except (NotMeasurable, OSError):
            made = None
        yield made


@pytest.fixture
def start(tmp_path, group):
    with ExitStack() as stack:

        def begin(engine, case):
            broker = ""
            if engine == "celery":
                broker = stack.enter_context(redis_server(tmp_path))
            server = Server(engine, case, tmp_path, group.prefix if group else (), broker)
            stack.callback(server.destroy)
            stack.callback(lambda: print(server.log))
            if server.is_below:
                server.wait_for(server.children, "the server")
            server.wait_for(lambda: len(tree.workers_of(server.master)) >= 2, "the workers")
            server.wait_for(lambda: server.ask("/")[0], "an answer")
            (tmp_path / "pid").write_text(str(server.master))
            return server

        yield begin


def said(*words):
    """What a command of pasture's prints, errors too."""
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "capture_output": False}
    return pasture(*words, **both).stdout.splitlines()


def firing(base):
    try:
        with urllib.request.urlopen(f"{base}/api/v1/alerts", timeout=TIMEOUT_S) as answer:
            found = json.load(answer)["data"]["alerts"]
    except OSError:
        return {}
    return {
        one["labels"]["alertname"]: one["annotations"]["summary"]
        for one in found
        if one["state"] == "firing"
    }


def quick_rules():
    """The rules as they are delivered, with seconds for minutes and no wait above one."""
    text = (REPOSITORY / "examples" / "prometheus" / "alerts.yml").read_text()
    text = re.sub(r"for: \d+m", "for: 1s", text)
    return text.replace("for: 1h", "for: 60s").replace("[1h]", "[60s]")


def shown_to_an_operator(name, server, words, alerts):
    """All words of a case, for `make drill`."""
    log = [line for line in server.log.splitlines() if "pasture: " in line]
    shown = {"log": log, **words, "alerts": [f"{key}: {alerts[key]}" for key in sorted(alerts)]}
    parts = [f"\n=== {name}"]
    parts += (f"{tool + ':':9}" + "\n         ".join(lines) for tool, lines in shown.items())
    text = "\n".join(parts)
    print(text)
    if "DRILL" in os.environ:
        with Path(os.environ["DRILL"]).open("a") as file:
            file.write(f"{text}\n")


RUNS = [
    pytest.param(engine, name, id=f"{engine}, {name}")
    for engine in ENGINES
    for name in CASES
    if ALL or engine == "gunicorn"
]


@pytest.mark.parametrize(("engine", "name"), RUNS)
def test_the_right_cause_is_named_first(
    engine,
    name,
    group,
    start,
    export,  # noqa: F811
    prometheus,  # noqa: F811
    tmp_path,
):
    case = replace(CASES[name], **ELSEWHERE.get((engine, name), {}))
    _, url = export(tmp_path / "pid")
    base = prometheus(f"127.0.0.1:{port_of(url)}", rules=quick_rules())
    server = start(engine, case)
    master = server.master
    server.wait_for(lambda: ask(base, "pasture_up == 1"), "figures")
    case.begin(server, group)
    doctor, top = said("doctor", master), said("top", "--once", master)
    headline, *rest = said("explain", master) if case.explain else [""]
    causes = [line for line in rest if line.startswith("- ")]
    deadline = time.monotonic() + TIMEOUT_S
    while case.alerts != firing(base).keys() and time.monotonic() < deadline:
        time.sleep(0.5)
    alerts = firing(base)
    words = {"top": top, "doctor": doctor, "explain": [headline, *causes]}
    shown_to_an_operator(f"{engine}: {name}", server, words, alerts)
    assert re.match(case.doctor, "\n".join(doctor))
    assert top[0] == doctor[0]
    first = next((line for i, line in enumerate(top) if i and " in all, " in top[i - 1]), top[0])
    assert re.match(case.top, first)
    assert re.match(case.explain, headline) or re.match(f"- {case.explain}", causes[0])
    assert case.log in server.log
    assert alerts.keys() == case.alerts
