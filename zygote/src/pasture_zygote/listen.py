"""The socket of a server: from systemd, or bound by itself."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pasture.errors import ZygoteFailed
from pasture_zygote import place

_FIRST_DESCRIPTOR = 3  # sd_listen_fds(3)


def listener() -> socket.socket:
    """A socket that is bound, and that no other server has.

    Raises:
        ZygoteFailed: there is a server already, or no place for a socket.
    """
    given = _from_systemd()
    if given is not None:
        return given
    folder = place.make_folder()
    path = place.socket_path()
    with _alone(folder):
        if is_served(path):
            raise ZygoteFailed("a server is running already", hint="pasture zygote status")
        path.unlink(missing_ok=True)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            bound.bind(os.fspath(path))
            path.chmod(0o600)
            bound.listen()
        except OSError as error:
            raise ZygoteFailed(f"{path} cannot be made: {error}") from None
        return bound


def _from_systemd() -> socket.socket | None:
    pid, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or count != "1":
        return None
    given = socket.socket(fileno=_FIRST_DESCRIPTOR)
    if given.family != socket.AF_UNIX or given.type != socket.SOCK_SEQPACKET:
        raise ZygoteFailed(
            "the socket from systemd is of another kind", hint="use ListenSequentialPacket="
        )
    os.set_inheritable(_FIRST_DESCRIPTOR, False)
    return given


def is_served(path: Path) -> bool:
    """Whether anybody answers at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            return error.errno in (errno.EAGAIN, errno.EPROTOTYPE)
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No second process is inside for the same folder."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
