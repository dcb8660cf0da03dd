"""Effects of code beyond its own process's memory, refused while an entry is built.

An audit hook sees them before they happen, and raises. It does not see system calls of C code:
`trial` looks for their traces. Source: the table of audit events of CPython's documentation.
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
"""Effects in the present block, or in the latest."""
_thread = 0


class EffectRefused(BaseException):
    """Raised instead of an effect. A library's `except Exception` does not catch it."""


class ThreadRefused(EffectRefused, RuntimeError):
    """Raised instead of a thread's start: `threading` forgets the thread then."""


@contextmanager
def refused() -> Iterator[list[str]]:
    """Refuse effects of this thread in the `with` block, which does not nest; yields their list."""
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
    if arguments and "__pycache__" in str(arguments[0]):  # an import writes it
        return
    _found.append(f"{effect} ({event})")
    raise (ThreadRefused if effect == _THREAD else EffectRefused)(_found[-1])


def _writes(path: Any, mode: Any, flags: Any) -> bool:
    writes = flags & _WRITES if isinstance(flags, int) else set(str(mode)) & set("wax+")
    is_open = isinstance(path, int)  # a descriptor of an open file
    return bool(writes) and not is_open and path != os.devnull


_audit = Audit(_hear)
forget = _audit.drop
"""Removes the hook, once all is built."""
