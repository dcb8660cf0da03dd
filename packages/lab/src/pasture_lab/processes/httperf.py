"""httperf: so many connections with one request each, to one URL, as fast as they are served.

One httperf sends one request after the other; there are twice as many at once as the machine has
cores, so that all workers are busy, and their connections together make the number. While it
waits it polls without a pause, so it runs at the lowest priority: else it takes most of the
processor from the workers that it waits for. The kernel shares the processor between sessions
first (sched(7), autogrouping), so that a nice value alone changes nothing: the session needs one.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pasture.errors import ServerFailed
from pasture_lab.engine import requirements
from pasture_lab.engine.experiment import Bench
from pasture_lab.processes.program import environment
from pasture_tools.launch.ports import LOOPBACK
from pasture_tools.launch.session import Group, tail

_TIMEOUT_S = 60
_POLL_S = 0.02
_TRIES = 10
_OK = re.compile(r"Reply status: 1xx=\d+ 2xx=(\d+)")
_REPLIES = re.compile(r"^Total: connections (\d+) requests \d+ replies (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rate:
    """The outcome of a number of connections.

    Attributes:
        seconds: of wall time, from the first to the last.
        answered: with a status of 2xx.
    """

    connections: int
    seconds: float
    answered: int

    @property
    def a_second(self) -> float:
        """Answers with 2xx a second."""
        return self.answered / self.seconds


def send(bench: Bench, port: int, connections: int, timeout_s: float) -> Rate:
    """Send a number of requests.

    Raises:
        NotMeasurable: there is no httperf.
        ServerFailed: it failed, or did not end in time.
    """
    program = requirements.find("httperf")
    clients = min(2 * (os.cpu_count() or 1), connections)
    shares = [connections // clients + (i < connections % clients) for i in range(clients)]
    logs = [bench.log(f"httperf-{i}") for i in range(clients)]
    start = time.monotonic()
    with ExitStack() as stack:
        groups = [
            stack.enter_context(Group(_command(program, port, n), log=log, env=environment()))
            for n, log in zip(shares, logs, strict=True)
        ]
        for group in groups:
            _give_way(bench, group)
        while any(group.exit_code() is None for group in groups):
            if time.monotonic() - start > timeout_s:
                raise ServerFailed(f"{connections} requests took more than {timeout_s:.0f} s")
            bench.pause(_POLL_S)
        seconds = time.monotonic() - start
    texts = [log.read_text(errors="replace") for log in logs]
    return Rate(connections, seconds, sum(answered(text) for text in texts))


def answered(text: str) -> int:
    """The number of answers with 2xx in httperf's report.

    Raises:
        ServerFailed: it is no report.
    """
    found = _OK.search(text)
    if found is None or _REPLIES.search(text) is None:
        raise ServerFailed("httperf gave no report", hint="it says\n" + tail(text))
    return int(found[1])


def _give_way(bench: Bench, group: Group) -> None:
    """Give a session the lowest priority among sessions, where the kernel knows of them. Without
    privilege that can be done ten times a second in all; what has ended needs it no more.
    """
    for _ in range(_TRIES):
        try:
            Path(f"/proc/{group.pid}/autogroup").write_text("19")
        except BlockingIOError:
            bench.pause(0.1)
        except OSError:
            return
        else:
            return


def _command(program: str, port: int, connections: int) -> list[str]:
    return [
        "nice", "-n", "19", program, "--hog", "--server", LOOPBACK, "--port", str(port),
        "--uri", "/", "--num-conns", str(connections), "--timeout", str(_TIMEOUT_S),
    ]  # fmt: skip
