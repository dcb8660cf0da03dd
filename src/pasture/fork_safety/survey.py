"""Open files, connections and threads of a parent that do not survive a fork.

The survey is taken right before the seal, after known connections have been closed (`close`). It
imports and opens nothing, looks at each open file, and asks the cards of libraries. The heap is
walked only for connections of libraries that cope with a fork, event loops, and dialogues by pipes.
"""

from __future__ import annotations

import gc
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from pasture.fork_safety import comeback, fork_aware, inherited, kept, native_threads, streams
from pasture.fork_safety.libraries import LIBRARIES
from pasture.fork_safety.library import Library, Named
from pasture.fork_safety.open_files import Files, is_only_read, name_of, open_files
from pasture.reasons import Hazard, Reason

_SQLITE_HEADER = b"SQLite format 3\0"

_NEVER_GARBAGE = (Reason.THREAD, Reason.NATIVE_THREAD, Reason.GEVENT_HUB)

START_EACH = "start it in each worker, in post_fork or the start of the lifespan"
CLOSE_OR_OPEN = "close it in a function under @pasture.before_fork, or open it in each worker"
"""The hint for files of unknown libraries."""


def survey() -> tuple[Hazard, ...]:
    """Objects that children will lack, or would share with their parent.

    In the parent, before the fork. Safe with other threads running.
    """
    files = open_files()
    return (
        *_connections(files),
        *streams.undividable(files),
        *kept.hazards(),
        *_databases(files),
        *_libraries(),
        *_threads(),
        *native_threads.hazards(),
    )


def survey_without_garbage(
    look: Callable[[], Sequence[Hazard]] | None = None,
) -> tuple[Hazard, ...]:
    """Hazards that are left after a collection, which runs only if it can make a difference.

    Django's connections of a thread that has ended are cycles. `look` stands for `survey`.
    """
    look = look or survey
    found = look()
    if any(hazard.kind not in _NEVER_GARBAGE for hazard in found):
        gc.collect()
        found = look()
    return tuple(found)


def _threads() -> Iterator[Hazard]:
    """One hazard per library with threads, one for all threads of unknown origin."""
    own = threading.current_thread()
    found: dict[tuple[str, str], list[str]] = {}
    others = [
        one
        for one in threading.enumerate()
        if one is not own and not _is_restarted(one)
        if not (streams.is_armed() and inherited.comes_back(one))
    ]
    for thread in comeback.without_returning(others) if others else ():
        found.setdefault(_whose(thread), []).append(thread.name)
    for (owner, hint), names in found.items():
        named = f"{_named(names)} of {owner}" if owner else _named(names)
        yield Hazard(named, hint, Reason.THREAD, owner)


def starts_again(name: str, package: str) -> bool:
    """Whether a version of a thread's library starts it again in each worker."""
    return any(_names(library, name, package) for library in LIBRARIES)


def _names(library: Library, name: str, package: str) -> bool:
    is_of_package = library.restarts_all and library.package == _index_name(package)
    return is_of_package or name.startswith(library.restarted)


def _is_restarted(thread: threading.Thread) -> bool:
    package = _package_of(thread)
    for library in LIBRARIES:
        if _names(library, thread.name, package):
            return library.starts_them() and not library.locks(thread)
    return any(thread.ident in library.restarted_now() for library in LIBRARIES)


def _package_of(thread: threading.Thread) -> str:
    code = getattr(thread, "_target", None) or type(thread)
    return str(getattr(code, "__module__", "")).partition(".")[0]


def _whose(thread: threading.Thread) -> tuple[str, str]:
    """The library of a thread and the remedy; for an unknown library the package of its code."""
    if (known := _named_as(thread.name)) is not None:
        return known.owner, known.remedy
    package = _package_of(thread)
    is_own = package in ("", "__main__") or package in sys.stdlib_module_names
    return ("", START_EACH) if is_own else (package, _remedy_of(package))


def remedy_for_thread(name: str, package: str) -> str:
    """The remedy for a thread of a parent, by its name and its package, which may be ""."""
    if (known := _named_as(name)) is not None:
        return f"{known.owner}: {known.remedy}"
    return f"{package or name}: {_remedy_of(package)}"


def _remedy_of(package: str) -> str:
    own = _index_name(package)
    remedies = (one.remedy for one in LIBRARIES if own and one.package == own and one.remedy)
    return next(remedies, START_EACH)


def _named_as(name: str) -> Named | None:
    known = (named for library in LIBRARIES for named in library.threads)
    return next((named for named in known if named.part in name), None)


def _index_name(package: str) -> str:
    return package.lower().replace("_", "-")


def _named(all_names: Sequence[str]) -> str:
    names = list(dict.fromkeys(all_names))
    return f"thread {names[0]}" if len(names) == 1 else f"each of the threads {', '.join(names)}"


def _connections(files: Files) -> Iterator[Hazard]:
    """Connected streams, to another host or through a named socket of this one."""
    if not (found := streams.connected(files)):
        return
    closed = tuple(filter(None, (library.closed_at_fork() for library in LIBRARIES)))
    left = [one for one in found if not one.peer.endswith(closed)]
    known = fork_aware.sockets() | kept.sockets() if left else ()
    for one in left:
        if one.inode not in known:
            words = f"to {one.peer}" if one.peer else f"from {one.own}"
            yield Hazard(f"the connection {words}", CLOSE_OR_OPEN, Reason.CONNECTION)


def _databases(files: Files) -> Iterator[Hazard]:
    """SQLite's files, by their first bytes: sqlite.org/howtocorrupt.html, section 2.6."""
    if "_sqlite3" not in sys.modules:
        return
    for number, what in files:
        if not stat.S_ISREG(what.st_mode) or _begins(number) != _SQLITE_HEADER:
            continue
        if not is_only_read(number, files):
            yield Hazard(
                f"the open SQLite database {name_of(number)}", CLOSE_OR_OPEN, Reason.DATABASE
            )


def _begins(number: int) -> bytes:
    try:
        return os.pread(number, len(_SQLITE_HEADER), 0)
    except OSError:
        return b""


def _libraries() -> Iterator[Hazard]:
    events = sys.modules.get("asyncio.events")
    if events is not None and events._get_running_loop() is not None:
        yield Hazard("a running asyncio loop", "fork before the loop is started")
    for library in LIBRARIES:
        yield from library.hazards()
