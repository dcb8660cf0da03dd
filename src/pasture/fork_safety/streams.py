"""Connected streams that children would share with their parent, and what children get instead.

Two processes that read one stream take each other's answers. So an engine that forks workers
replaces each stream in the child by a dead end, before other code runs: its client sees a server
that has closed an idle connection. Owns the choice of the streams, by what the kernel reports; the
C side (`native/process/streams.c`) owns the replacement. Invariant: no flag of an open file is
changed, and what was open before the application was loaded is never touched.
docs/internals/child-and-exit.md says why.
"""

from __future__ import annotations

import _socket
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pasture.errors import UnsupportedInterpreter
from pasture.fork_safety import inherited, own_files, own_memory
from pasture.fork_safety.library import instances
from pasture.fork_safety.open_files import Files, Socket, describe, name_of, open_files, pipe_ends
from pasture.interpreter import native
from pasture.reasons import SHARED, Hazard, Reason

_STANDARD = (0, 1, 2)
_KINDS = (_socket.SOCK_STREAM, _socket.SOCK_SEQPACKET)
_NETWORK = (_socket.AF_INET, _socket.AF_INET6, getattr(_socket, "AF_VSOCK", -1))
_HEX = frozenset("0123456789abcdef")
_EPOLL = "anon_inode:[eventpoll]"
_QUEUES = ("[io_uring]", "inotify", "[fanotify]", "[timerfd]")
"""Anonymous files from which one process takes events meant for all. Source: fs/ of Linux."""

_EACH = "make it in each worker"

Isolate = Callable[[tuple[tuple[int, int], ...], tuple[int, ...]], None]


@dataclass(frozen=True, slots=True)
class _Noted:
    sockets: frozenset[tuple[int, int]]  # number and inode of each that may be shared at a fork
    shared: tuple[tuple[int, int], ...]  # streams that were shared when this was noted
    epolls: tuple[int, ...]
    isolate: Isolate


_before: set[int] | None = None
"""Inodes of the sockets that were open before the application was loaded."""
_unnamed_before: frozenset[int] = frozenset()
"""Numbers of epolls and similar files that were open before: they have one inode in common."""
_kept: set[int] = set()
"""Inodes of streams that are reported and that children share nevertheless."""
_noted: _Noted | None = None
_hooked = False


def begin(is_loaded: bool = False) -> None:
    """Remember what is open before the application is loaded: the engine's, and what it inherited.

    The first call counts: at a later load the application's own files are open. Where the server
    itself has loaded it (`is_loaded`), children share what is open, as in plain; it is reported.
    """
    global _before, _unnamed_before
    files = open_files()
    inherited.begin()
    own_files.begin(files)
    if _before is None:
        _unnamed_before = frozenset(number for number, _ in _unnamed(files))
        _before = set()
        sockets = (what.st_ino for _, what in files if stat.S_ISSOCK(what.st_mode))
        (_kept if is_loaded else _before).update(sockets)


def arm() -> None:
    """Isolate each child of this process right after its fork, before other hooks.

    Before the application is loaded.
    """
    global _hooked
    if not _hooked:
        os.register_at_fork(after_in_child=isolate)
        _hooked = True


def is_armed() -> bool:
    """Whether children of this process are isolated."""
    return _hooked


def connected(files: Files) -> tuple[Socket, ...]:
    """Streams that children would share with this process. In the parent, before the fork."""
    return shared(_described(number for number, _ in _applications(files)))


def keep(number: int) -> None:
    """Leave a stream to children, for one that is passed on purpose or that plain Python shares."""
    _kept.add(os.fstat(number).st_ino)


def note() -> None:
    """Note what children must not use, or repair (`inherited`).

    In the parent, before the forks; may be repeated. Streams that are opened later are left alone,
    as one that is accepted and passed to a child. So are all streams where the extension cannot be
    used.
    """
    global _noted
    files = open_files()
    inherited.note()
    own_files.note(files)
    own_memory.note()
    try:
        extension = native()
    except UnsupportedInterpreter:
        return
    sockets = frozenset(_applications(files))
    epolls = (number for number, name in _unnamed(files) if name == _EPOLL)
    _noted = _Noted(
        sockets,
        _not_kept(shared(_described(number for number, _ in sockets))),
        tuple(number for number in epolls if number not in _unnamed_before),
        extension.isolate_streams,
    )
    with suppress(OSError):  # this process may open no more files: nor may its child
        extension.keep_spare_end()


def isolate() -> None:
    """Replace each noted stream by a dead end. In each child of the process that has noted them.

    The child's own children are as without pasture. After a fork of C code call it by hand, and
    `inherited.put_in_order` next.
    """
    global _noted
    own_memory.take()
    own_files.take()
    noted, _noted = _noted, None
    if noted is None:
        return
    try:
        now = _described(number for number, _ in noted.sockets)
        there = [one for one in now if (one.number, one.inode) in noted.sockets]
        found = _not_kept(shared(there))
    except Exception:  # a MemoryError
        found = noted.shared
    epolls = tuple(number for number in noted.epolls if _is_parents(number))
    with suppress(OSError, MemoryError):  # the rest is done; the spare end is closed
        noted.isolate(found, epolls)


def _is_parents(epoll: int) -> bool:
    """Whether an epoll is the parent's: a C library may have made its own at the fork."""
    try:
        own, theirs = (_watched(pid, epoll) for pid in (os.getpid(), os.getppid()))
    except OSError:
        return True  # not known
    return own == theirs


def _watched(pid: int, epoll: int) -> bytes:
    with open(f"/proc/{pid}/fdinfo/{epoll}", "rb") as file:  # noqa: PTH123
        return file.read()


def shared(sockets: Sequence[Socket]) -> tuple[Socket, ...]:
    """The streams of which two processes would take each other's bytes. Pure.

    One that was accepted here, as a server does that forks for each, is the child's to answer.
    """
    ends = {_ends(one.own, one.peer) for one in sockets if one.family in _NETWORK}
    ports = {(one.family, _port(one)) for one in sockets if one.is_listening}
    return tuple(
        one for one in sockets if _leads_away(one, ends) and (one.family, _port(one)) not in ports
    )


def _port(one: Socket) -> str:
    return one.own.rpartition(":")[2] if one.family in _NETWORK else one.own


def _leads_away(one: Socket, ends: Collection[tuple[str, str]]) -> bool:
    if one.kind not in _KINDS or one.is_listening or one.is_at_end:
        return False
    if one.family == _socket.AF_UNIX:
        # Without names it is a pair: a self-pipe, or a channel that is made to be inherited.
        return one.is_connected and (_is_name(one.own) or _is_name(one.peer))
    if one.family not in _NETWORK or _is_written_only(one):
        return False
    # Both ends are here in a self-pipe of two connected streams. One in its handshake has no peer.
    return one.is_connecting or (one.is_connected and _ends(one.peer, one.own) not in ends)


def _is_name(address: str) -> bool:
    """Whether a program chose the name: the kernel gives names of five hex digits.

    Source: Linux net/unix/af_unix.c, unix_autobind.
    """
    return bool(address) and not (
        len(address) == 6 and address[0] == "\0" and _HEX.issuperset(address[1:])
    )


def _is_written_only(one: Socket) -> bool:
    """Whether the stream has sent and not received, as for logging over TCP.

    It has no answers to mix up, and its client, which never reads, would lose what it writes.
    """
    return one.received == 0 and one.acked > 1


def _ends(own: str, peer: str) -> tuple[str, str]:
    return own.removeprefix("::ffff:"), peer.removeprefix("::ffff:")


def _described(numbers: Iterator[int]) -> list[Socket]:
    return [one for number in numbers if (one := describe(number)) is not None]


def _not_kept(sockets: Sequence[Socket]) -> tuple[tuple[int, int], ...]:
    """Numbers and inodes of the streams that are not left to children."""
    return tuple((one.number, one.inode) for one in sockets if one.inode not in _kept)


def _applications(files: Files) -> Iterator[tuple[int, int]]:
    """Number and inode of each socket that the application has opened."""
    found = [(number, what.st_ino) for number, what in files if stat.S_ISSOCK(what.st_mode)]
    others = {inode for number, inode in found if number in _STANDARD} | (_before or set())
    return ((number, inode) for number, inode in found if inode not in others)


def _unnamed(files: Files) -> Iterator[tuple[int, str]]:
    """Number and kind of each file that lies in no file system."""
    for number, what in files:
        if not stat.S_IFMT(what.st_mode):
            yield number, name_of(number)


def undividable(files: Files) -> Iterator[Hazard]:
    """Files of the application that processes would share and a dead end cannot replace."""
    for number, name in _unnamed(files):
        kind = name.removeprefix("anon_inode:")
        if kind in _QUEUES and number not in _unnamed_before:
            named = f"the {kind.strip('[]')} with the descriptor {number}"
            yield Hazard(named, _EACH, Reason.CONNECTION)
    yield from loops(are_foreign=True)
    yield from _dialogues(files)


def loops(*, are_foreign: bool) -> Iterator[Hazard]:
    """Open event loops: asyncio's, or those of other libraries, whose epolls cannot be replaced."""
    events: Any = sys.modules.get("asyncio.events")
    own: Any = getattr(sys.modules.get("asyncio.base_events"), "BaseEventLoop", None)
    kinds = type.__subclasses__(events.AbstractEventLoop) if events is not None else ()
    wanted = [kind for kind in kinds if (kind is not own) is are_foreign]
    found = instances(wanted) if wanted else []
    for kind in {type(one) for one in found if not _is_closed(one)}:
        name = f"an event loop ({kind.__module__}.{kind.__qualname__})"
        yield Hazard(name, _EACH, Reason.EVENT_LOOP, fate=SHARED)


def _is_closed(loop: Any) -> bool:
    try:
        return bool(loop.is_closed())
    except Exception:  # a subclass's own, half made
        return True


def _dialogues(files: Files) -> Iterator[Hazard]:
    """Programs that this process writes to and reads from by pipes."""
    popen = getattr(sys.modules.get("subprocess"), "Popen", None)
    if popen is None:
        return
    read, written = pipe_ends(files)
    if not (written - read and read - written):  # cheap: most programs have no such pipes
        return
    for one in instances([popen]):
        streams = vars(one).get("stdin"), vars(one).get("stdout")
        if one.returncode is None and all(end is not None and not end.closed for end in streams):
            yield Hazard(
                f"the dialogue by pipes with the process {one.pid}",
                "start it in each worker",
                Reason.CONNECTION,
            )
