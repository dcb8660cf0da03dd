"""`pasture metrics PID --port N`: the figures of a running server for Prometheus.

Owns arguments and the HTTP server beside it; ends when the server does.
"""

from __future__ import annotations

import errno
import time
from pathlib import Path

import click

from pasture.errors import NoPrivilege, PortTaken, UsageError
from pasture.metrics.recorder import DIRECTORY
from pasture.observe.tree import is_running
from pasture.servers.environment import REPORT_FILE

_LOOK_S = 1.0


@click.command("metrics")
@click.argument("pid", type=click.IntRange(min=1))
@click.option("-p", "--port", type=click.IntRange(0, 65535), default=9464, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
def command(pid: int, port: int, host: str) -> None:
    """Serve the figures of a server to Prometheus, until that server ends.

    PID is the master: the process that forks the workers. Where the server was started with
    PASTURE_METRICS_DIR and PASTURE_REPORT_FILE in its environment, collections, pauses,
    recycles and the seal are served too. See docs/metrics.md.
    """
    if not is_running(pid):
        raise UsageError(f"there is no process {pid}", hint="give the pid of the server's master")
    from prometheus_client import start_http_server

    from pasture.metrics.middleware import registry_of

    registry = registry_of(pid, _environment_of(pid))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        raise PortTaken(f"port {port} is taken", hint="choose another one with --port") from None
    click.echo(f"metrics of {pid} at http://{host}:{server.server_port}/metrics", err=True)
    try:
        while is_running(pid):
            time.sleep(_LOOK_S)
    finally:
        server.shutdown()
        thread.join()
    click.echo(f"process {pid} has ended", err=True)


def _environment_of(pid: int) -> dict[str, str]:
    """The variables with which a process was started, as far as they matter here.

    Raises:
        NoPrivilege: it belongs to another user.
    """
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except PermissionError:
        raise NoPrivilege(
            f"not allowed to look into process {pid}", hint="run pasture as its user, or as root"
        ) from None
    except OSError:
        return {}
    pairs = (item.decode(errors="replace").partition("=") for item in data.split(b"\0"))
    found = {name: value for name, _, value in pairs}
    return {name: found[name] for name in (DIRECTORY, REPORT_FILE) if name in found}
