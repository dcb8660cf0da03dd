"""The test application of the PyPy study under load: its memory, its rates, and both when memory
is short.

Owns how `sites/large_objects_site.py` is loaded and read; what is compared is `webserver`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import psutil

from pasture.errors import NotMeasurable
from pasture_lab.engine import requirements
from pasture_lab.engine.experiment import Bench
from pasture_lab.engine.figures import Figures, Measured, curve
from pasture_lab.processes import cgroup, httperf, nginx
from pasture_lab.processes.client import burst
from pasture_lab.processes.program import environment
from pasture_lab.processes.server import SITES, Server, ServerPlan, median, serving
from pasture_tools.launch.ports import free_port
from pasture_tools.launch.session import Group

BURSTS = 50
WORKERS = 4
MODULE = "large_objects_site"
_SETTLED = 5 * WORKERS  # requests: by then each worker has served the two that drop old objects
THRESHOLDS = "thresholds_of_2018"

Load = ServerPlan | str
"""A server of ours, or the path of another interpreter."""

Sizes = Mapping[int, int]
"""Requests sent for each number of the study's."""


def ours(policy: str | None) -> ServerPlan:
    """uWSGI behind nginx. Without a warm-up: a request allocates 14 MB and frees as much, and
    workers would begin in that hole of the master's instead of new memory.
    """
    return ServerPlan(
        module=MODULE,
        workers=WORKERS,
        policy=policy,
        warm=False,
        first=THRESHOLDS,
        http=False,
    )


def bursts(what: Load, each: int, bench: Bench) -> Measured:
    """Private and shared memory of a worker after each burst."""
    requirements.find("nginx")
    with ExitStack() as stack:
        group = _group_or_none(stack)
        prefix = () if group is None else group.prefix
        server, port = stack.enter_context(_behind_nginx(bench, what, prefix))
        samples = [server.sample(0)]
        totals = [samples[0].total_pss_bytes]
        failed = 0
        for number in range(1, BURSTS + 1):
            failed += burst(port, each, threads=WORKERS)
            samples.append(server.sample(number * each))
            totals.append(samples[-1].total_pss_bytes)
            bench.pause(0)
            bench.report(number / BURSTS)
        peak = {} if group is None else {"peak_bytes": float(group.peak_bytes())}
    served = [s.requests for s in samples]
    settled = next((i for i, n in enumerate(served) if n >= _SETTLED), -1)
    private = curve(served, [median(s, lambda m: m.private_bytes) for s in samples])
    shared = curve(served, [median(s, lambda m: m.shared_bytes) for s in samples])
    return Measured(
        {
            "private_start_bytes": private.y[0],
            "private_end_bytes": private.y[-1],
            "shared_start_bytes": shared.y[0],
            "shared_first_bytes": shared.y[settled],
            "shared_end_bytes": shared.y[-1],
            "total_pss_bytes": totals[-1],
            "requests": BURSTS * each,
            **peak,
        },
        {"private_bytes": private, "shared_bytes": shared},
        (f"{failed} of {BURSTS * each} requests failed",) if failed else (),
    )


def rates(what: Load, sizes: Sizes, bench: Bench) -> Measured:
    """Connections a second for each number of requests, by httperf, one after the other."""
    requirements.find("httperf")
    with _behind_nginx(bench, what, ()) as (_, port):
        burst(port, 2 * WORKERS)
        return _send_all(port, sizes, bench)


def limited(what: Load, sizes: Sizes, bench: Bench) -> Measured:
    """The same in a group whose memory is limited to between what both need."""
    requirements.find("httperf")
    with cgroup.memory_group() as group:
        limit = _limit_between(bench.figures)
        group.limit(limit)
        with _behind_nginx(bench, what, group.prefix) as (server, port):
            measured = _send_all(port, sizes, bench)
            ended = server.group.exit_code() is not None
        kills = group.kills()
    return Measured(
        {
            **measured.figures,
            "limit_bytes": limit,
            "kills": kills,
            "swap_bytes": psutil.swap_memory().total,
            "server_ended": float(ended),
        },
        measured.curves,
        (f"the kernel killed {kills} processes of this server",) if kills else (),
    )


def _limit_between(figures: Figures) -> int:
    """Half way between the peaks of the sealed and the stock server.

    Raises:
        NotMeasurable: they were not measured, or stock needs no more.
    """
    if not {"stock.peak_bytes", "seal.peak_bytes"} <= set(figures):
        raise NotMeasurable("the servers' peaks were not measured", hint="see stock and seal")
    stock, sealed = figures["stock.peak_bytes"], figures["seal.peak_bytes"]
    if stock < 1.05 * sealed:
        raise NotMeasurable(
            "there is no limit that stock passes and the sealed server does not: their peaks "
            f"are {stock / 1e6:.0f} MB and {sealed / 1e6:.0f} MB"
        )
    return int((stock + sealed) / 2)


def _send_all(port: int, sizes: Sizes, bench: Bench) -> Measured:
    figures: dict[str, float] = {}
    missing = done = 0
    for published, size in sizes.items():
        rate = httperf.send(bench, port, size, timeout_s=120 + size / 4)
        # Not 0, which nothing can be compared with.
        figures[f"r{published}_a_second"] = max(rate.a_second, 0.001)
        missing += size - rate.answered
        done += size
        bench.report(done / sum(sizes.values()))
    figures["unanswered"] = missing
    rates = [figures[f"r{published}_a_second"] for published in sizes]
    notes = (f"{missing} of {done} requests were not answered with 200",) if missing else ()
    return Measured(figures, {"a_second": curve(list(sizes.values()), rates)}, notes)


def _group_or_none(stack: ExitStack) -> cgroup.MemoryGroup | None:
    """A group to read the peak from; None if it cannot be made."""
    try:
        return stack.enter_context(cgroup.memory_group())
    except NotMeasurable:
        return None


@contextmanager
def _behind_nginx(
    bench: Bench, what: Load, prefix: tuple[str, ...]
) -> Iterator[tuple[Server, int]]:
    """A server of ours, or of another interpreter, and the port of nginx before it."""
    if isinstance(what, str):
        with (
            _other_interpreter(bench, what, prefix) as server,
            nginx.in_front(bench, server.port, speaks_uwsgi=False) as port,
        ):
            yield server, port
        return
    plan = replace(what, prefix=prefix)
    with (
        serving(bench, plan) as server,
        nginx.in_front(bench, server.port, speaks_uwsgi=True) as port,
    ):
        yield server, port


@contextmanager
def _other_interpreter(bench: Bench, python: str, prefix: tuple[str, ...]) -> Iterator[Server]:
    """The lab's own pre-fork server under another interpreter, which may have no uWSGI."""
    port = free_port()
    command = [
        *prefix, python, str(SITES / "prefork_server.py"), MODULE, str(port), str(WORKERS)
    ]  # fmt: skip
    env = environment({"PYTHONPATH": str(SITES)})
    with Group(command, log=bench.log("server"), env=env, cwd=bench.directory) as group:
        server = Server(group, port)
        server.wait_until_it_serves(bench, WORKERS)
        yield server
