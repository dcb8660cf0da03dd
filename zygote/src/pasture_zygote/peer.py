"""Whether the process at the other end of a socket stands on the same side of every boundary.

The mirror of src/stub/peer.c: both ends look, through the peer's pidfd. A program that is served
stays in its own control group with its own limits. What an order has the server do does not, so
those are compared for orders.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from pathlib import Path

from pasture.trust.unix_sockets import peer_of
from pasture_zygote.bounds import cgroup_differs, limit_differs

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts", "pid_for_children")
LINES = (
    *("Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"),
    *("NoNewPrivs:", "Seccomp:"),
)
_SO_PEERPIDFD = 77


def peer_differs(connection: socket.socket) -> str | None:
    """What differs between the peer and this process; None if nothing does."""
    return _looked_at(connection, _differs)


def bounds_differ(connection: socket.socket) -> str | None:
    """What limits the peer and not this process; None if nothing does."""
    return _looked_at(connection, _bounds_differ)


def _looked_at(connection: socket.socket, look: Callable[[int], str | None]) -> str | None:
    pid, uid = peer_of(connection)
    if uid != os.geteuid():
        return "another user"
    try:
        process = _pidfd(connection, pid)
    except OSError:
        return "the process is gone"
    try:
        difference = look(pid)
        is_gone = bool(select.select([process], [], [], 0)[0])
    finally:
        os.close(process)
    return "the process is gone" if is_gone else difference


def _pidfd(connection: socket.socket, pid: int) -> int:
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:  # before Linux 6.5
        return os.pidfd_open(pid)


def _differs(pid: int) -> str | None:
    own, other = Path("/proc/self"), Path(f"/proc/{pid}")
    try:
        for name in NAMESPACES:
            if _link(own / "ns" / name) != _link(other / "ns" / name):
                return "another namespace"
        if _link(own / "root") != _link(other / "root"):
            return "another root directory"
        if _label(own) != _label(other):
            return "another label of a security module"
        return _status_differs((own / "status").read_bytes(), (other / "status").read_bytes())
    except OSError:
        return "/proc does not show the process"


def _bounds_differ(pid: int) -> str | None:
    own, other = Path("/proc/self"), Path(f"/proc/{pid}")
    try:
        limit = limit_differs((own / "limits").read_text(), (other / "limits").read_text())
        return limit or cgroup_differs(_text(own / "cgroup"), _text(other / "cgroup"))
    except OSError:
        return "/proc does not show the process"


def _label(process: Path) -> bytes | None:
    """By which SELinux, AppArmor or Smack knows a process; None without one of them."""
    try:
        return (process / "attr" / "current").read_bytes()
    except OSError:
        return None


def _text(path: Path) -> str:
    return os.fsdecode(path.read_bytes())


def _link(path: Path) -> str | None:
    try:
        return str(path.readlink())
    except FileNotFoundError:
        return None


def _status_differs(own: bytes, other: bytes) -> str | None:
    mine, others = _lines(own), _lines(other)
    return next((name for name in LINES if mine.get(name) != others.get(name)), None)


def _lines(status: bytes) -> dict[str, bytes]:
    found = (line.partition(b"\t") for line in status.splitlines())
    return {name.decode("ascii", "replace"): value for name, _, value in found}
