"""gRPC: its core runs threads and has connections that C code alone knows.

In a forked child the core closes the connections, starts its threads again and reconnects,
unless a variable switches that off. A socket counts as such a connection if no Python object has
it, an epoll of the process watches it, and it leads to the target of a channel.

Source: grpcio 1.85, _channel.py (`Channel`), _cython/_cygrpc/channel.pyx.pxi (`Channel.target`),
and gRPC's src/core/lib/iomgr/fork_posix.cc; proc_pid_fdinfo(5).
"""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pasture.fork_safety.library import ForkAware, Library, LoopOwned, Named
from pasture.fork_safety.open_files import open_files, peer
from pasture.reasons import Hazard

_SWITCH = "GRPC_ENABLE_FORK_SUPPORT"
_OFF = ("0", "f", "false", "n", "no")

_DETAILS = Path("/proc/self/fdinfo")
_TASKS = Path("/proc/self/task")
_WATCHED = re.compile(r"^tfd:\s*(\d+)", re.MULTILINE)


def _keepers(module: Any) -> Iterable[object]:
    """Classes of gRPC's channels and of objects that call through one, and Python's sockets."""
    known = getattr(sys.modules.get("grpc._channel"), "__dict__", {})
    # Stubs keep what calls; the channel's own object may be gone.
    found = [known[name] for name in known if re.fullmatch(r"Channel|\w*MultiCallable", name)]
    return [*found, getattr(sys.modules.get("_socket"), "socket", None)]


def _connections(found: Sequence[Any]) -> Iterator[int]:
    """Numbers of the files that are connections of the channels that were found."""
    targets = [_host_and_port(target) for target in filter(None, map(_target, found))]
    if not targets:
        return
    others = {one.fileno() for one in found if hasattr(one, "fileno")}
    watched = set(_watched())
    for number, what in open_files():
        if stat.S_ISSOCK(what.st_mode) and number in watched - others:
            address = _host_and_port(peer(number))
            if any(_leads_to(address, target) for target in targets):
                yield number


def _target(one: Any) -> str:
    """The target of a channel or of an object that calls through it, as in "host:443"; else ""."""
    target = getattr(getattr(one, "_channel", None), "target", None)
    if not callable(target):
        return ""
    return re.sub(r"^.*/|^ipv[46]:", "", os.fsdecode(target()))


def _host_and_port(address: str) -> tuple[str, str]:
    """Host and port of an address; IPv4 within IPv6 becomes IPv4."""
    host, _, port = address.rpartition(":")
    return host.strip("[]").removeprefix("::ffff:"), port


def _leads_to(address: tuple[str, str], target: tuple[str, str]) -> bool:
    """Whether a connection may lead to a target; a name is not looked up."""
    host, port = target
    is_numeric = ":" in host or not host.strip("0123456789.")
    return address[1] == port and (address[0] == host or not is_numeric)


def _watched() -> Iterator[int]:
    paths: list[Path] = []
    with suppress(OSError):
        paths += _DETAILS.iterdir()
    for path in paths:
        with suppress(OSError):
            yield from map(int, _WATCHED.findall(path.read_text(errors="replace")))


_FORK_AWARE = ForkAware(
    *("grpc", (1, 85), (1, 85), _keepers, _connections),
    # The core reads its variable once, as it is loaded.
    copes=lambda: os.environ.get(_SWITCH, "").lower() not in _OFF,
)
_OPEN_EACH = "open the first channel in each worker"


def _hazards() -> Iterator[Hazard]:
    core = "grpc._cython.cygrpc" in sys.modules and _has_threads_of_c()
    if core and not _FORK_AWARE.is_trusted():
        yield Hazard("gRPC's core, which runs threads", _OPEN_EACH)


def _has_threads_of_c() -> bool:
    try:
        return len(list(_TASKS.iterdir())) > len(threading.enumerate())
    except OSError:
        return False  # there is no /proc


CARD = Library(
    package="grpcio",
    remedy=_OPEN_EACH,
    threads=(Named("grpc", "gRPC", "open the channel in each worker"),),
    known_elsewhere=True,
    hazards=_hazards,
    fork_aware=_FORK_AWARE,
    on_loop=(LoopOwned("grpc.aio", "Channel", lambda one: one.close(None)),),
)
