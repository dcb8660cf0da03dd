"""webserver: the test application of the PyPy study behind nginx, memory and rates.

Owns setting, published figures and rules, and how a server is loaded. The study compared two
builds of PyPy; here stand CPython as it is, CPython with full collections out of line, which
is the study's design on a stock interpreter, and sealed CPython. `--python` adds another
interpreter as it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import psutil

from pasture.errors import NotMeasurable, ServerFailed
from pasture.lab import cgroup, httperf, kit, nginx
from pasture.lab.client import burst
from pasture.lab.experiment import Bench, Experiment, Options, Part, Plot, Row
from pasture.lab.figures import Figures, Measured, curve
from pasture.lab.program import environment
from pasture.lab.rule import Rule
from pasture.lab.server import SITES, Server, ServerPlan, listens, median, serving
from pasture.observe import tree
from pasture.trial.diagnosis import tail
from pasture.trial.group import Group
from pasture.trial.plan import free_port

_MODULE = "large_objects_site"
_WORKERS = 4
_POLICIES = (("stock", None), ("side-table", "side-table"), ("seal", "seal"))
_SIZES = (5_000, 10_000, 15_000, 20_000)
_BURSTS, _BURST = 50, 100
_QUICK_DIVISOR = 200
_QUICK_BURST = 8
_RATE_GUESS = 110.0  # requests a second, for the estimate of the time
_GIVEN = "given"
_TODAY = "stock-today"
_THRESHOLDS = "thresholds_of_2018"


def _parts(options: Options) -> tuple[Part, ...]:
    divisor = _QUICK_DIVISOR if options.quick else 1
    each = _QUICK_BURST if options.quick else _BURST
    sizes = {size: size // divisor for size in _SIZES}
    loads = [(name, _ours(policy)) for name, policy in _POLICIES]
    key = {"bursts": _BURSTS, "burst": each}
    parts = [
        Part(name, 6 + _BURSTS * each / _RATE_GUESS, partial(_bursts, plan, each), key)
        for name, plan in (*loads, (_TODAY, replace(_ours(None), first="")))
    ]
    requests = sum(sizes.values())
    parts += [
        Part(f"rate-{name}", 6 + requests / _RATE_GUESS, partial(_rates, plan, sizes),
             {"sizes": list(sizes.values())})
        for name, plan in loads
        if name != "side-table" or options.quick
    ]  # fmt: skip
    parts += [
        Part(f"limit-{name}", 6 + requests / _RATE_GUESS, partial(_limited, plan, sizes),
             {"sizes": list(sizes.values())})
        for name, plan in loads
        if name != "side-table"
    ]  # fmt: skip
    if options.python is not None:
        given = {"python": options.python}
        parts += [
            Part(_GIVEN, 6 + _BURSTS * each / _RATE_GUESS,
                 partial(_bursts, options.python, each), key | given),
            Part(f"rate-{_GIVEN}", 6 + requests / _RATE_GUESS,
                 partial(_rates, options.python, sizes), {"sizes": list(sizes.values())} | given),
        ]  # fmt: skip
    return tuple(parts)


def _ours(policy: str | None) -> ServerPlan:
    """uWSGI behind nginx. Without a warm-up: a request allocates 14 MB and frees as much, and
    workers would begin in that hole of the master's instead of new memory.
    """
    return ServerPlan(
        module=_MODULE,
        workers=_WORKERS,
        policy=policy,
        warm=False,
        first=_THRESHOLDS,
        http=False,
    )


def _bursts(what: ServerPlan | str, each: int, bench: Bench) -> Measured:
    """Private and shared memory of a worker after each burst."""
    kit.find("nginx")
    with ExitStack() as stack:
        group = _group_or_none(stack)
        prefix = () if group is None else group.prefix
        server, port = stack.enter_context(_behind_nginx(bench, what, prefix))
        samples = [server.sample(0)]
        totals = [samples[0].total_pss_bytes]
        failed = 0
        for number in range(1, _BURSTS + 1):
            failed += burst(port, each, threads=_WORKERS)
            samples.append(server.sample(number * each))
            totals.append(samples[-1].total_pss_bytes)
            bench.pause(0)
            bench.tell(number / _BURSTS)
        peak = {} if group is None else {"peak_bytes": float(group.peak_bytes())}
    served = [s.requests for s in samples]
    private = curve(served, [median(s, lambda m: m.private_bytes) for s in samples])
    shared = curve(served, [median(s, lambda m: m.shared_bytes) for s in samples])
    return Measured(
        {
            "private_start_bytes": private.y[0],
            "private_end_bytes": private.y[-1],
            "shared_start_bytes": shared.y[0],
            "shared_first_bytes": shared.y[1],
            "shared_end_bytes": shared.y[-1],
            "total_pss_bytes": totals[-1],
            "requests": _BURSTS * each,
            **peak,
        },
        {"private_bytes": private, "shared_bytes": shared},
        (f"{failed} of {_BURSTS * each} requests failed",) if failed else (),
    )


def _rates(what: ServerPlan | str, sizes: dict[int, int], bench: Bench) -> Measured:
    """Connections a second for each number of requests, by httperf, one after the other."""
    kit.find("httperf")
    with _behind_nginx(bench, what, ()) as (_, port):
        burst(port, 2 * _WORKERS)
        return _send_all(port, sizes, bench)


def _limited(plan: ServerPlan, sizes: dict[int, int], bench: Bench) -> Measured:
    """The same in a group whose memory is limited to between what both need."""
    kit.find("httperf")
    with cgroup.memory_group() as group:
        limit = _limit_between(bench.figures)
        group.limit(limit)
        with _behind_nginx(bench, plan, group.prefix) as (server, port):
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


def _send_all(port: int, sizes: dict[int, int], bench: Bench) -> Measured:
    figures: dict[str, float] = {}
    missing = done = 0
    for published, size in sizes.items():
        rate = httperf.send(bench, port, size, timeout_s=120 + size / 4)
        # Not 0, which nothing can be compared with.
        figures[f"r{published}_a_second"] = max(rate.a_second, 0.001)
        missing += size - rate.answered
        done += size
        bench.tell(done / sum(sizes.values()))
    figures["unanswered"] = missing
    rates = [figures[f"r{published}_a_second"] for published in sizes]
    notes = (f"{missing} of {done} requests were not answered with 200",) if missing else ()
    return Measured(figures, {"a_second": curve(list(sizes.values()), rates)}, notes)


def _group_or_none(stack: ExitStack) -> cgroup.MemoryGroup | None:
    """A group to read the peak from; None where none can be made."""
    try:
        return stack.enter_context(cgroup.memory_group())
    except NotMeasurable:
        return None


@contextmanager
def _behind_nginx(
    bench: Bench, what: ServerPlan | str, prefix: tuple[str, ...]
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
        *prefix, python, str(SITES / "prefork_server.py"), _MODULE, str(port), str(_WORKERS)
    ]  # fmt: skip
    env = environment({"PYTHONPATH": str(SITES)})
    with Group(command, log=bench.log("server"), env=env, cwd=bench.directory) as group:
        deadline = time.monotonic() + 90
        while len(tree.forked_workers(group.pid)) < _WORKERS or not listens(port):
            if group.exit_code() is not None or time.monotonic() > deadline:
                log = group.log.read_text(errors="replace")
                raise ServerFailed(f"{python} did not serve", hint="it says\n" + tail(log))
            bench.pause(0.05)
        yield Server(group, port)


def _derive(figures: Figures) -> Figures:
    """The study's patched PyPy is compared with what was run for it here; rates under a limit
    are rates of paging only where there is swap to page to.
    """
    found: dict[str, float] = {}
    if figures.get("limit-stock.swap_bytes"):
        found |= {
            f"paging-{name}": value
            for name, value in ((n.removeprefix("limit-"), v) for n, v in figures.items())
            if name.endswith("_a_second") and f"limit-{name}" in figures
        }
    for size in _SIZES:
        for name in ("side-table", "seal"):
            value = figures.get(f"rate-{name}.r{size}_a_second")
            if value is not None:
                found[f"patched.r{size}_a_second"] = value
                break
    return found


def _rate_row(size: int, standard: float, patched: float) -> Row:
    """One of the rows about time without a shortage of memory."""
    return Row(
        what=f"{size:,} requests",
        published=f"{standard} conn/s standard, {patched} patched",
        shows=f"{{rate-stock.r{size}_a_second}} conn/s stock, {{patched.r{size}_a_second}} with "
        f"the collector out of line, {{rate-seal.r{size}_a_second}} sealed",
        rule=Rule(
            says="conn/s, collector out of line / stock",
            of=f"patched.r{size}_a_second",
            to=f"rate-stock.r{size}_a_second",
            most=0.8,
            published=patched / standard,
        ),
        decides=False,
    )


def _paging_row(size: int, standard: float, patched: float) -> Row:
    """One of the rows about time where the standard server has to page."""
    return Row(
        what=f"{size:,} requests, memory short",
        published=f"{standard} conn/s standard (paging), {patched} patched",
        shows=f"{{limit-stock.r{size}_a_second}} conn/s stock, "
        f"{{limit-seal.r{size}_a_second}} sealed, in {{limit-seal.limit_bytes}}; without the "
        f"limit {{rate-stock.r{size}_a_second}} and {{rate-seal.r{size}_a_second}}",
        rule=Rule(
            says="conn/s under the limit, sealed / stock",
            of=f"paging-seal.r{size}_a_second",
            to=f"paging-stock.r{size}_a_second",
            least=1.2,
            published=patched / standard,
        ),
        without="without swap the kernel kills instead of paging: see the row about that",
    )


EXPERIMENT = Experiment(
    name="webserver",
    title="A forking web server with large objects",
    source="PyPy for forking web servers, 2018",
    setting=(
        "PyPy with the visited flag of its collector moved from the object's header into a hash "
        "table. nginx, uWSGI in pre-fork mode with 4 workers, Django; 8 GB and 3 cores. At "
        "start-up 5 large objects are allocated; each request allocates one more and drops the "
        "third-last. Memory after each of 50 bursts of 100 requests; httperf for 5,000 to 20,000."
    ),
    differences=(
        "CPython, with the collector's thresholds of 2018 (700 instead of 2,000): a request "
        "frees as many objects as it allocates, so that today's threshold is never reached and "
        "nothing is ever collected. The run stock-today shows that.",
        "The study's patched collector is pasture's out-of-line collector on a stock "
        "interpreter (policy side-table): marks are kept in a side table, here a bitmap.",
        f"Quick runs send bursts of {_QUICK_BURST} requests and a {_QUICK_DIVISOR}th of the "
        "requests of each rate; full runs take the rate of the sealed server for that of the "
        "out-of-line collector, which is a part of it.",
        "As many httperf at once as there are cores, one connection each at a time.",
        "A worker's first two requests drop two of the five objects that were there at the fork, "
        "28 MB, which leave the shared memory whatever the collector does.",
        "Short of memory is a cgroup with a limit half way between the peaks of the stock and the "
        "sealed server. Without swap the kernel kills instead of paging; uWSGI then forks a "
        "new worker, fresh and small, so that it goes on nearly as fast.",
        "Another interpreter (--python) runs without pasture, under a pre-fork server in plain "
        "Python, with Django if it has it.",
    ),
    needs=("django", "pyuwsgi"),
    parts=_parts,
    derive=_derive,
    rows=(
        Row(
            what="private memory a worker after 5,000 requests",
            published="1,000-1,200 MB standard, about 800 MB patched (20% less)",
            shows="{stock.private_end_bytes} stock, {side-table.private_end_bytes} with the "
            "collector out of line, {seal.private_end_bytes} sealed, after {stock.requests}",
            rule=Rule(
                says="private, collector out of line / stock",
                of="side-table.private_end_bytes",
                to="stock.private_end_bytes",
                most=0.9,
                published=0.8,
            ),
        ),
        Row(
            what="shared memory with requests, standard",
            published="falls away",
            shows="{stock.shared_start_bytes} to {stock.shared_end_bytes}",
            rule=Rule(
                says="shared after / before, stock",
                of="stock.shared_end_bytes",
                to="stock.shared_start_bytes",
                most=0.8,
            ),
        ),
        Row(
            what="shared memory with requests, patched",
            published="flat",
            shows="{side-table.shared_start_bytes}, {side-table.shared_first_bytes} after the "
            "first burst, {side-table.shared_end_bytes} at the end; sealed "
            "{seal.shared_start_bytes}, {seal.shared_first_bytes} and {seal.shared_end_bytes}",
            # From the first burst on: whatever the collector does, each worker's first two
            # requests drop two of the objects that it shared, 28 MB.
            rule=Rule(
                says="shared at the end / after the first burst, collector out of line",
                of="side-table.shared_end_bytes",
                to="side-table.shared_first_bytes",
                least=0.9,
                published=1.0,
            ),
        ),
        Row(
            what="private and shared memory a worker with CPython's thresholds of today",
            shows="{stock-today.private_end_bytes} private, shared "
            "{stock-today.shared_start_bytes} to {stock-today.shared_end_bytes}",
        ),
        _rate_row(5_000, 190.8, 67.9),
        _rate_row(10_000, 269.2, 148.7),
        _paging_row(15_000, 97.7, 188.8),
        _paging_row(20_000, 103.2, 190.9),
        Row(
            what="short of memory: paging, or killed",
            published="standard pages from 15,000 requests on, patched does not",
            shows="{limit-stock.kills} processes of the stock server, {limit-seal.kills} of the "
            "sealed one, in {limit-stock.limit_bytes}; unanswered {limit-stock.unanswered} and "
            "{limit-seal.unanswered}",
            rule=Rule(
                says="processes killed for want of memory, sealed / stock",
                of="limit-seal.kills",
                to="limit-stock.kills",
                most=0.1,
                published=0.0,
            ),
            without="the stock server was not killed either",
        ),
        Row(
            what="another interpreter, as it is (--python)",
            shows="{given.private_end_bytes} private, shared {given.shared_start_bytes} to "
            "{given.shared_end_bytes}, {rate-given.r5000_a_second} conn/s",
        ),
    ),
    plots=(
        Plot(
            key="private_bytes",
            title="Private memory of a worker",
            caption="After each of 50 bursts; median worker.",
            x_title="requests served by all workers",
            y_title="MB a worker",
        ),
        Plot(
            key="shared_bytes",
            title="Shared memory of a worker",
            caption="A fall is a page that was written.",
            x_title="requests served by all workers",
            y_title="MB a worker",
        ),
        Plot(
            key="a_second",
            title="Connections a second",
            caption="By httperf; the runs named limit are short of memory.",
            x_title="requests",
            y_title="conn/s",
        ),
    ),
)
