"""`pasture metrics [SERVER]`: the figures of a running server for Prometheus or OpenTelemetry.

Owns arguments and messages. Ends with the process that a pid names; by another name it stays over
restarts. Reads the server's processes and opens no file that the server names: it may run as root
next to an untrusted server.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import click

from pasture.errors import PortTaken, UsageError
from pasture.proc.stat import start_time
from pasture.proc.tree import is_running, only_master, require_memory_of
from pasture_tools.cli.numbers import Number, Whole
from pasture_tools.doctor.server import server_of
from pasture_tools.metrics.named import Named
from pasture_tools.proc.sampler import sample_tree

Find = Callable[[], int | None]
"""Returns the pid of the server's master, or None while it does not run."""


@click.command("metrics")
@click.argument("server", metavar="[PID|FILE|UNIT|NAME]", required=False)
@click.option("-p", "--port", type=Whole(0, 65535), default=9464, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--otlp",
    metavar="URL",
    help="Send the figures to this OpenTelemetry collector instead (OTLP over HTTP).",
)
@click.option(
    "--interval",
    type=Number(min=1),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="Interval of --otlp.",
)
def command(server: str | None, port: int, host: str, otlp: str | None, interval: float) -> None:
    """Serve the figures of a server to Prometheus.

    PID is the server's master, or a shell or supervisor above it; the exporter ends with it. A pid
    FILE (with a slash), a systemd UNIT, or a NAME (part of its command) is followed through
    restarts. Without any of them, the one pre-fork server of this user is looked for, as in
    another container of its pod. Servers run by pasture also report collections, pauses, recycles
    and the seal.
    """
    pid, find, wanted = _server(server)
    if pid is not None:
        sample_tree(pid)  # fails now rather than at each scrape
    name = f"{find}" if isinstance(find, Named) else f"{pid}"
    if otlp is None:
        _listen(name, find, port, host, wanted)
    else:
        _send(name, find, otlp, interval, wanted)
    click.echo(f"process {name} has ended", err=True)


def _server(named: str | None) -> tuple[int | None, Find, Callable[[], bool]]:
    """The pid of a server now, how to find it, and whether to wait for it."""
    if named is None or not named.isdecimal():
        if named is None:
            only_master("metrics")  # or an error that lists them
        find = Named(named or "", lambda words: click.echo(f"{find} {words}", err=True))
        return find(), find, lambda: True
    if int(named) < 1:
        raise UsageError(f"process {named} does not exist", hint="pasture metrics PID")
    require_memory_of(int(named))
    pid = server_of(int(named), "metrics")
    started = start_time(pid)
    return pid, lambda: pid, lambda: is_running(pid) and start_time(pid) == started


def _send(name: str, find: Find, url: str, interval_s: float, wanted: Callable[[], bool]) -> None:
    from pasture_tools.metrics.otlp import Sender, send_until, shown

    def say(words: str) -> None:
        click.echo(f"metrics of {name} {words}", err=True)

    sender = Sender(url, find)
    say(f"go to {shown(url)} every {interval_s:g} s")
    send_until(sender.send, interval_s, wanted, say)


def _listen(name: str, find: Find, port: int, host: str, wanted: Callable[[], bool]) -> None:
    import asyncio

    from pasture_tools.metrics.exporter import (
        ServerCollector,  # reports what to install, if the next import fails
    )
    from pasture_tools.metrics.listener import Listener, Reading

    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest  # isort: skip

    collector, registry = ServerCollector(None), CollectorRegistry()
    registry.register(collector)

    def read() -> bytes:
        collector.master_pid = find()
        return generate_latest(registry)

    listener = Listener(Reading(read), CONTENT_TYPE_LATEST)

    def ready(taken: int) -> None:
        click.echo(f"metrics of {name} at http://{host}:{taken}/metrics", err=True)

    try:
        asyncio.run(listener.serve(host, port, ready, wanted))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        raise PortTaken(f"port {port} is taken", hint="choose another one with --port") from None
