"""An operator's drill: something goes wrong, and each tool names the right cause first.

`make drill` shows the words of the log, `top`, `doctor`, `explain`, and of the alerts in a real
Prometheus, whose times are a sixtieth of those in examples/prometheus/alerts.yml. The servers run
in a control group with a limit, where one can be made.
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
from dataclasses import dataclass
from pathlib import Path

import pytest

from pasture.errors import NotMeasurable
from pasture.proc.cgroup import read_usage
from pasture_lab.processes.cgroup import memory_group
from tests.integration.running import TIMEOUT_S
from tests.integration.test_metrics import (
    REPOSITORY,
    export,  # noqa: F401  a fixture
    port_of,
    prometheus,  # noqa: F401
)

pytestmark = pytest.mark.once

LIMIT_BYTES = 800_000_000
ENOUGH = 320
"""Requests after which a worker is judged."""
MANY = 6000


@dataclass(frozen=True)
class Case:
    """One thing that goes wrong, and what the tools say of it first."""

    begin: Callable  # takes server and group
    alerts: set[str]  # all that are raised
    doctor: str  # of its first line; as are the next ones
    explain: str
    top: str  # of its first line below the processes
    log: str = ""  # anywhere
    options: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    plain: bool = False


def request(server, path, *, timeout=TIMEOUT_S):
    url = f"http://127.0.0.1:{server.port}{path}"
    with suppress(urllib.error.URLError, OSError):
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.read()
    return b""


def leak(server, group):
    """Until both workers have grown for long: the kernel chooses who answers."""
    grown = {}
    for _ in range(MANY):
        with suppress(ValueError):  # no answer
            pid, count = map(int, request(server, "/leak").split())
            grown[pid] = count
        if len([count for count in grown.values() if count >= ENOUGH]) == 2:
            return
    raise AssertionError(grown)


def leak_until_recycled(server):
    for _ in range(MANY):
        request(server, "/leak")
        if "recycling worker" in server.log:
            return


def hang(server, group):
    for _ in range(2):
        threading.Thread(target=request, args=(server, "/price"), daemon=True).start()
    time.sleep(1)


def fill(server, group):
    if group is None:
        pytest.skip("no control group with a limit of memory can be made here (it takes root)")
    used = read_usage(server.pid)
    held = used.used_bytes - used.idle_file_bytes - used.active_file_bytes
    group.limit(int(held * 1.07))


def kill(server, group):
    server.send_signal(signal.SIGKILL)
    server.wait(TIMEOUT_S)


GROWS = r"grows by [\d.]+ KB a request since request \d+: looks like a leak"
LEFT = r"[\d.]+ MB are left of the limit of [\d.]+ MB"
LOST = r"workers share \d+% of what the master holds, and have written to the rest"
HOLD = r"workers hold [\d.]+ MB of [\d.]+ MB for themselves, and the master only [\d.]+ MB"
WAITS = r"worker \d+ waits for a lock: pasture doctor --hung"
UNASKED = "plain, because nothing asks for pasture"
CASES = {
    "a leak": Case(
        leak,
        {"PastureLeak"},
        doctor=rf"! leak: worker \d+ \(and 1 more\) {GROWS}",
        explain=rf"worker \d+ has .*; it {GROWS}",
        top=rf"worker \d+ \(and 1 more\) {GROWS}",
        log=rf"recycling worker \d+: .*; it {GROWS}",
        options=("--max-uss", "30M"),
        env=(("PASTURE_SNAPSHOT", "{folder}/snapshot"),),
    ),
    "lost sharing": Case(
        lambda server, group: [request(server, "/write") for _ in range(20)],
        {"PastureSharingLost"},
        doctor=rf"! sharing: {LOST}",
        explain=LOST,
        top=LOST,
    ),
    "a dead server": Case(
        kill,
        {"PastureServerGone"},
        doctor="error: there is no process",
        explain="error: there is no process",
        top="error: there is no process",
    ),
    "a hung worker": Case(
        hang,
        {"PastureWorkerHung", "PastureHazard"},
        doctor=r"! hung: process \d+ waits for a lock at drill_app.py:\d+ in price; its parent's "
        r"thread refresher, which it lacks, was at drill_app.py:\d+ in refresh when it was forked",
        explain=WAITS,
        top=WAITS,
        log="hazard: thread refresher of drill_app does not survive a fork",
        env=(("DRILL_THREAD", "1"), ("PASTURE_ACCEPT", "threads")),
    ),
    "memory near its limit": Case(
        fill, {"PastureNearLimit"}, doctor=rf"! limit: {LEFT}", explain=LEFT, top=LEFT
    ),
    "a missing preload": Case(
        lambda server, group: [request(server, "/") for _ in range(700)],
        {"PastureNotPreloaded"},
        doctor=rf"! preload: {HOLD}: the application is loaded after the fork",
        explain=HOLD,
        top=HOLD,
        plain=True,
    ),
}


@pytest.fixture
def group():
    with ExitStack() as stack:
        try:
            made = stack.enter_context(memory_group())
            made.limit(LIMIT_BYTES)
        except (NotMeasurable, OSError):
            made = None
        yield made


def said(*words):
    """What a command of pasture's prints, errors too."""
    command = [sys.executable, "-m", "pasture", *map(str, words)]
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    ).stdout.splitlines()


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
    """The rules as they are delivered, in a sixtieth of the time."""
    text = (REPOSITORY / "examples" / "prometheus" / "alerts.yml").read_text()
    text = re.sub(r"for: (\d+)m", lambda found: f"for: {int(found[1])}s", text)
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


@pytest.mark.parametrize("name", CASES)
def test_the_right_cause_is_named_first(
    name,
    group,
    serve,
    export,  # noqa: F811
    prometheus,  # noqa: F811
    tmp_path,
):
    case = CASES[name]
    _, url = export(tmp_path / "pid")
    base = prometheus(f"127.0.0.1:{port_of(url)}", rules=quick_rules())
    server = serve(
        *("--pid", str(tmp_path / "pid")),
        app="drill_app:app",
        options=case.options,
        env={key: value.format(folder=tmp_path) for key, value in case.env},
        plain=case.plain,
        before=group.prefix if group else (),
    )
    case.begin(server, group)
    top = said("top", "--once", server.pid)
    doctor = said("doctor", server.pid)
    headline, *rest = said("explain", server.pid)
    causes = [line for line in rest if line.startswith("- ")]
    deadline = time.monotonic() + 60
    while not case.alerts <= firing(base).keys() and time.monotonic() < deadline:
        time.sleep(0.5)
    alerts = firing(base)
    if case.options:  # a worker that grows is replaced
        leak_until_recycled(server)
    words = {"top": top, "doctor": doctor, "explain": [headline, *causes]}
    shown_to_an_operator(name, server, words, alerts)
    assert alerts.keys() == case.alerts
    if not doctor[0].startswith("error: "):
        state, *doctor = doctor
        assert state == top[0] == ("sealed" if not case.plain else UNASKED)
    assert re.match(case.doctor, doctor[0])
    assert re.match(case.explain, headline) or re.match(f"- {case.explain}", causes[0])
    first = next((line for i, line in enumerate(top) if i and " in all, " in top[i - 1]), top[0])
    assert re.match(case.top, first)
    assert re.search(case.log, server.log)
