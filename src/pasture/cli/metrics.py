"""`pasture metrics PID`: the figures of a running server for Prometheus or OpenTelemetry.

Owns arguments and messages; ends when the server does. Reads the server's processes and opens
no file that the server names: it may run as root beside a server that is not trusted.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import click

from pasture.cli.numbers import PID, Number, Whole
from pasture.errors import PortTaken, UsageError
from pasture.proc.sampler import sample_tree
from pasture.proc.stat import start_time
from pasture.proc.tree import is_running, only_master, require_memory_of, server_of


@click.command("metrics")
@click.argument("pid", type=PID, required=False)
@click.option("-p", "--port", type=Whole(0, 65535), default=9464, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--otlp",
    metavar="URL",
    help="Send them to this collector of OpenTelemetry's instead, by OTLP over HTTP.",
)
@click.option(
    "--interval",
    type=Number(min=1),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two times that --otlp sends.",
)
def command(pid: int | None, port: int, host: str, otlp: str | None, interval: float) -> None:
    """Serve the figures of a server to Prometheus.

    Ends when that server does.

    PID is the master, the process that forks the workers, or a shell or supervisor above it.
    Without PID, the one pre-fork server of this user is looked for, as in another container of its
    pod. Servers run by pasture report collections, pauses, recycles and the seal too. See
    docs/operate.md.
    """
    if pid is None:
        pid = only_master("metrics")
    require_memory_of(pid)
    pid = server_of(pid, "metrics")
    sample_tree(pid)  # refused now rather than at each scrape, where it is not allowed
    started = start_time(pid)

    def wanted() -> bool:
        return is_running(pid) and start_time(pid) == started

    if otlp is None:
        _listen(pid, port, host, wanted)
    else:
        _send(pid, otlp, interval, wanted)
    click.echo(f"process {pid} has ended", err=True)


def _send(pid: int, url: str, interval_s: float, wanted: Callable[[], bool]) -> None:
    from pasture.metrics.otlp import Sender, send_until, shown

    def say(words: str) -> None:
        click.echo(f"metrics of {pid} {words}", err=True)

    sender = Sender(url, pid)
    say(f"go to {shown(url)} every {interval_s:g} s")
    send_until(sender.send, interval_s, wanted, say)


def _listen(pid: int, port: int, host: str, wanted: Callable[[], bool]) -> None:
    import asyncio

    from pasture.metrics.listener import Listener, Reading
    from pasture.metrics.middleware import registry_of  # says what to install without the next one

    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest  # isort: skip

    registry = registry_of(pid)
    listener = Listener(Reading(lambda: generate_latest(registry)), CONTENT_TYPE_LATEST)

    def ready(taken: int) -> None:
        click.echo(f"metrics of {pid} at http://{host}:{taken}/metrics", err=True)

    try:
        asyncio.run(listener.serve(host, port, ready, wanted))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        raise PortTaken(f"port {port} is taken", hint="choose another one with --port") from None
