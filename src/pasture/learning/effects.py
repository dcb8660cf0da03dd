"""Effects that code may have beyond its own process's memory, refused while an entry is built.

An audit hook sees them before they happen, and raises. Those of C code that calls the system by
itself are not seen here: `trial` looks for what they leave. Source: the table of audit events of
CPython's documentation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_native_id  # gevent's get_ident has audit events of its own
from typing import Any

from pasture.observing import Audit

_THREAD = "a thread"
_EFFECTS = {
    "a connection": (
        *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"),
        *("socket.getaddrinfo", "socket.gethostbyname", "sqlite3.connect"),
    ),
    _THREAD: ("_thread.start_new_thread", "_thread.start_joinable_thread"),
    "a process": (
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"),
        *("os.fork", "os.forkpty", "pty.spawn", "os.kill", "webbrowser.open"),
    ),
    "a file": (
        *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink"),
        *("os.truncate", "os.chmod", "os.chown", "shutil.rmtree", "shutil.move"),
        *("tempfile.mkstemp", "tempfile.mkdtemp"),
    ),
}
_EFFECT_OF = {event: effect for effect, events in _EFFECTS.items() for event in events}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_found: list[str] = []
"""Of the block that is under way, or the latest."""
_thread = 0


class EffectRefused(BaseException):
    """Raised in the place of an effect. No `except Exception` of a library takes it for its own."""


class ThreadRefused(EffectRefused, RuntimeError):
    """The same where the system has no thread: `threading` forgets the thread then."""


@contextmanager
def refused() -> Iterator[list[str]]:
    """Refuse effects of this thread in the block, which does not nest; the list gets them."""
    global _found, _thread
    _found, _thread = [], get_native_id()
    _audit.start()
    try:
        yield _found
    finally:
        _audit.stop()


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    effect = _EFFECT_OF.get(event) or (event == "open" and _writes(*arguments[:3]) and "a file")
    if not effect or get_native_id() != _thread:
        return
    if arguments and "__pycache__" in str(arguments[0]):  # which an import itself makes
        return
    _found.append(f"{effect} ({event})")
    raise (ThreadRefused if effect == _THREAD else EffectRefused)(_found[-1])


def _writes(path: Any, mode: Any, flags: Any) -> bool:
    writes = flags & _WRITES if isinstance(flags, int) else set(str(mode)) & set("wax+")
    is_open = isinstance(path, int)  # a descriptor: it was opened before
    return bool(writes) and not is_open and path != os.devnull


_audit = Audit(_hear)
forget = _audit.drop
"""Takes the hook away, once all is built."""
