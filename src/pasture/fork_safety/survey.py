"""What is open or runs in a parent and does not survive a fork.

The survey is taken right before the seal, after known connections have been closed (`close`). It
imports, opens and closes nothing: a library counts only if the application has imported it. It
looks at each open file. The heap is walked only for connections of libraries that cope with a fork
(`fork_aware`).
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pasture.fork_safety import fork_aware, kept, native_threads
from pasture.fork_safety.hazard import Hazard, Kind
from pasture.fork_safety.open_files import name_of, open_files, peer

_SELF = Path("/proc/self")
_STANDARD_STREAMS = (0, 1, 2)
_SQLITE_HEADER = b"SQLite format 3\0"
_JOURNAL = "/run/systemd/"
"""Where standard streams of a service lead to; logging to it is meant to be shared."""

_RESTARTED = ("Otel", "OpenTelemetry", "sentry", "ddtrace")
"""Begin of the names of threads whose library starts them again in each worker by itself."""

_RESTARTED_PACKAGES = ("ddtrace", "sentry_sdk")
"""Packages that do so with all of theirs, also those that they give no name."""

_THREADS_OF = (
    ("raven", "the Raven client", "set it up in each worker"),
    ("NR-", "New Relic's agent", "initialize it in each worker"),
    ("grpc", "gRPC", "open the channel in each worker"),
    ("ThreadPoolExecutor", "a thread pool", "make it at its first use in each worker"),
    ("APScheduler", "a scheduler", "run it in a process of its own"),
)
"""Begin of a thread's name, whose it is, and what to do about it."""

_START_EACH = "start it in each worker"

_REMEDIES = {
    "grpcio": "open the first channel in each worker",
    "numpy": "set OPENBLAS_NUM_THREADS=1 for the master, or compute in workers only",
    "scipy": "set OPENBLAS_NUM_THREADS=1 for the master, or compute in workers only",
    "confluent-kafka": "make producers and consumers in each worker",
    "apscheduler": "run it in a process of its own",
}
"""What to do about threads by the package whose they are, its name in lower case."""


def survey() -> tuple[Hazard, ...]:
    """Look for what children will not have, or have to share with their parent.

    In the parent, before the fork. Safe with other threads running.
    """
    return (
        *_connections(),
        *kept.hazards(),
        *_databases(),
        *_libraries(),
        *_threads(),
        *native_threads.hazards(),
    )


def _threads() -> Iterator[Hazard]:
    """One for each library, one for all threads of nobody known."""
    own = threading.current_thread()
    found: dict[tuple[str, str], list[str]] = {}
    for thread in threading.enumerate():
        if thread is not own and not _is_restarted(thread):
            found.setdefault(_whose(thread), []).append(thread.name)
    for (owner, hint), names in found.items():
        yield Hazard(f"{_named(names)} of {owner}" if owner else _named(names), hint, Kind.THREAD)


def starts_again(name: str, package: str) -> bool:
    """Whether a thread's library starts it again in each worker by itself.

    Args:
        package: name of the package whose thread it is, or "".
    """
    own = package.lower().replace("-", "_")
    return name.startswith(_RESTARTED) or own in _RESTARTED_PACKAGES


def _is_restarted(thread: threading.Thread) -> bool:
    if starts_again(thread.name, _package_of(thread)):
        return True
    # ddtrace's C code starts threads of its own. `threading` knows them as Dummy-1 and the like,
    # once they have asked for themselves.
    known = getattr(sys.modules.get("ddtrace.internal._threads"), "periodic_threads", ())
    return thread.ident in known


def _package_of(thread: threading.Thread) -> str:
    """The package whose code it runs."""
    code = getattr(thread, "_target", None) or type(thread)
    return str(getattr(code, "__module__", "")).partition(".")[0]


def _whose(thread: threading.Thread) -> tuple[str, str]:
    """Library, and what to do about it; the package whose code it runs, where it is not known."""
    for begin, owner, hint in _THREADS_OF:
        if begin in thread.name:
            return owner, hint
    package = _package_of(thread)
    is_own = package in ("", "__main__") or package in sys.stdlib_module_names
    return "" if is_own else package, _START_EACH


def remedy_for_thread(name: str, package: str) -> str:
    """What to do about a thread of a parent, by its name and the package whose it is.

    Args:
        package: name of the package, or ""; a package's remedy is known for some.
    """
    for begin, owner, hint in _THREADS_OF:
        if begin in name:
            return f"{owner}: {hint}"
    hint = _REMEDIES.get(package.lower().replace("_", "-"), _START_EACH)
    return f"{package}: {hint}" if package else f"{name}: {hint}"


def _named(all_names: Sequence[str]) -> str:
    names = list(dict.fromkeys(all_names))
    return f"thread {names[0]}" if len(names) == 1 else f"each of the threads {', '.join(names)}"


def _connections() -> Iterator[Hazard]:
    """Connected streams, to another host or through a named socket of this one."""
    # Asked only if there is a connection to ask for.
    known = cache(lambda: fork_aware.sockets() | kept.sockets())
    datadog = _address_of_datadog()
    for number, what in open_files():
        if number in _STANDARD_STREAMS or not stat.S_ISSOCK(what.st_mode):
            continue
        other_end = peer(number)
        if not other_end or other_end.startswith(_JOURNAL):
            continue
        is_datadogs = bool(datadog) and other_end.endswith(datadog)
        if not is_datadogs and what.st_ino not in known():
            yield Hazard(
                f"the connection to {other_end}",
                "close it in a function under @pasture.before_fork, or open it in each worker",
                Kind.CONNECTION,
            )


def _address_of_datadog() -> str:
    """The end of the address of Datadog's agent; "" without one.

    ddtrace's runtime closes its connections before each fork, and opens new ones on both sides.
    Source: ddtrace 4.16, internal/native_runtime.py.
    """
    if "ddtrace.internal.native_runtime" not in sys.modules:
        return ""
    settings = getattr(sys.modules.get("ddtrace.internal.settings._agent"), "config", None)
    url = str(getattr(settings, "trace_agent_url", "")).rstrip("/")
    if url.startswith("unix://"):
        return url.removeprefix("unix://")
    port = url.rpartition(":")[2]
    return f":{port}" if port.isdigit() else ""


def _databases() -> Iterator[Hazard]:
    """SQLite's files, known by their first bytes.

    Source: https://www.sqlite.org/howtocorrupt.html, section 2.6.
    """
    if "_sqlite3" not in sys.modules:
        return
    for number, what in open_files():
        if stat.S_ISREG(what.st_mode) and _begins(number) == _SQLITE_HEADER:
            yield Hazard(
                f"the open SQLite database {name_of(number)}",
                "close it in a function under @pasture.before_fork, or open it in each worker",
                Kind.DATABASE,
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
    if _gevents_hub_is_lost():
        yield Hazard(
            "gevent's hub, which this fork does not renew",
            "call gevent.monkey.patch_all() before anything else is imported, or gevent.reinit() "
            "in each child",
        )
    core = "grpc._cython.cygrpc" in sys.modules and _has_threads_of_c()
    if core and not fork_aware.copes("grpc"):
        yield Hazard("gRPC's core, which runs threads", "open the first channel in each worker")
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and getattr(cuda, "_initialized", False):
        yield Hazard("CUDA, which is initialized", "use the GPU in workers only")


def _gevents_hub_is_lost() -> bool:
    """Whether gevent has a hub in this thread, and the next fork is not gevent's.

    Its own `os.fork` gives the child a hub that works. uWSGI forks in C.
    """
    module: Any = sys.modules.get("gevent._hub_local")
    if module is None or module.get_hub_if_exists() is None:
        return False
    return not os.fork.__module__.startswith("gevent") or "uwsgi" in sys.modules


def gevent_has_patched() -> bool:
    """Whether gevent has replaced functions of the standard library in this process."""
    return bool(getattr(sys.modules.get("gevent.monkey"), "saved", None))


def _has_threads_of_c() -> bool:
    try:
        return len(list((_SELF / "task").iterdir())) > len(threading.enumerate())
    except OSError:
        return False  # without /proc nobody can tell
