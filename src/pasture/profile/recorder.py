"""Records in each child what it builds for itself, into one file that all of them write.

A thread looks in each child, soon after a module was imported, else at intervals that grow while
nothing new comes. It reads the file, adds what it has found and puts the whole in its place, under
a lock on the folder: a child that is killed loses what came since its latest look. Once nothing new
has come for a while, the child stops and is as it would be without.

The thread is the system's own also where gevent has replaced threads, and takes no lock of the
application's. What `threading` knows of does not include it.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
from _thread import get_ident, get_native_id
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from time import monotonic, thread_time
from typing import Any, NoReturn

from pasture.observing import Finder, asker
from pasture.own_values import caches
from pasture.own_values.identity import Identity, digest_of
from pasture.profile import file, found
from pasture.profile.build import contents_of, scalars_of
from pasture.profile.compared import Compared
from pasture.profile.file import Profile, profile_of, show_pattern
from pasture.profile.safe import without_secrets
from pasture.refork.served import Served, host_of, words_of, words_of_environ
from pasture.trust.locks import locked


def original(module: str, name: str) -> Any:
    """An attribute of a module of the standard library, also where gevent or eventlet patched it.

    Source: gevent 26.9 gevent/monkey, `saved`; eventlet 0.40 eventlet/patcher.py, `original`.
    """
    saved: Any = getattr(sys.modules.get("gevent.monkey"), "saved", {})
    eventlet = sys.modules.get("eventlet.patcher")
    now = import_module(module) if eventlet is None else eventlet.original(module)
    return saved.get(module, {}).get(name) or getattr(now, name)


allocate_lock = original("_thread", "allocate_lock")
start_new_thread = original("_thread", "start_new_thread")
sleep = original("time", "sleep")

QUIET_S = 120.0
"""So long after the latest news, if there was any, a child stops."""

_FIRST_S, _MAX_S = 0.2, 10.0
"""Between two looks."""

_SOON_S = 0.05
"""From an import to the look that it leads to: it may be one of several."""

_SHARE = 100
"""A look takes no more than this part of a child's time: the next one waits for it."""

_LOCK_S, _LOCK_POLL_S = 2.0, 0.01
_END_S = 1.0
_MAX_REQUESTS = 200
_MAX_PATTERNS = 1000


class _Imports(Finder):
    """Notes modules that no other module imports."""

    def __init__(self, wake: Any) -> None:
        super().__init__(self._begin)
        self.roots: dict[str, None] = {}
        self._wake = wake
        self._under_way: dict[int, str] = {}

    def _begin(self, name: str) -> None:
        if not self.is_importing():
            self._under_way[get_ident()] = name
            if name not in self.roots:  # one that fails is tried again and again
                self.roots[name] = None
                self._wake()

    def is_importing(self) -> bool:
        """Whether this thread is in the middle of an import."""
        return _is_initializing(self._under_way.get(get_ident(), ""))

    def are_under_way(self) -> bool:
        """Whether some thread is."""
        return any(map(_is_initializing, list(self._under_way.values())))

    def modules(self) -> Iterator[str]:
        """Those that are there; a package whose own module came right behind it goes without."""
        names = [name for name in list(self.roots) if _can_be_imported(name)]
        for name, following in zip(names, (*names[1:], ""), strict=False):
            if not following.startswith(f"{name}."):
                yield name


def _spec_of(name: str) -> Any:
    return contents_of(sys.modules.get(name)).get("__spec__")


def _is_initializing(name: str) -> bool:
    return bool(getattr(_spec_of(name), "_initializing", False))


def _can_be_imported(name: str) -> bool:
    is_there = _spec_of(name) is not None
    is_own = name.partition(".")[0] in ("pasture", "__mp_main__")
    return is_there and not is_own and not _is_initializing(name)


class Recorder:
    """The recording of this process and of those that it forks. `recorder` is the only one.

    Attributes:
        is_on: this process records.
        failed: requests that are to be in no profile; those that the file names besides are not.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.failed: frozenset[str] = frozenset()
        self._path: Path | None = None
        self._of_parent: list[Any] = []
        self._owner = 0
        self._compile: Any = None
        self._exit: Any = None
        self._compared = Compared()
        self._reset()

    def _reset(self) -> None:
        self._thread = Path("/proc/self/task/0")  # its own, once it runs
        self._asleep = allocate_lock()
        self._flushing = allocate_lock()
        self._imports = _Imports(self._wake)
        self._patterns: dict[str, None] = {}
        self._served = Served()
        self._known = Profile()
        self._has_news = False
        self._caches: dict[int, tuple[Any, int]] = {}
        self._other: dict[str, set[str]] = {"template": set(), "connection": set()}
        self._grown: set[str] = set()
        self._identity = Identity.now()
        self._digests: dict[str, str] = {}  # by the entry's line
        self._own: set[str] = set()  # lines of entries that are this process's own
        self._modules_seen = self._modules_at_fork = 0
        self._templates: frozenset[str] = frozenset()

    # --- In the parent -------------------------------------------------------------------

    def watch(self, path: Path) -> None:
        """Have each child of this process record into a file. Before the seal."""
        if self._path is None:
            os.register_at_fork(after_in_child=self.begin)
        self._path = path.absolute()
        self._of_parent = caches.caches()

    # --- In a child ----------------------------------------------------------------------

    def begin(self) -> None:
        """Record from now on. The hook of a fork calls it, and only a child of C code by hand."""
        if self._owner == os.getpid():
            return
        self._owner = os.getpid()
        self._leave()  # its parent may be a child that records
        try:
            self._begin()
        except Exception as error:  # Python would print a traceback of a hook
            self._give_up(error)

    def _begin(self) -> None:
        self._reset()
        self._modules_at_fork = len(sys.modules)
        self._caches = {id(one): (one, one.cache_info().currsize) for one in self._of_parent}
        self._templates = frozenset(found.templates())
        self._imports.install()
        self._watch_patterns()
        self._asleep.acquire()
        self._exit = exit_now = os._exit

        def stop_and_exit(status: int) -> NoReturn:
            self.stop()
            exit_now(status)

        os._exit = stop_and_exit  # how processes of multiprocessing end, and RQ's after each job
        self.is_on = True
        atexit.unregister(self.stop)
        atexit.register(self.stop)
        start_new_thread(self._run, (os.getpid(),))

    def answered(
        self, method: str, target: str, headers: Iterable[tuple[str, str]], status: int
    ) -> None:
        """Note a request that was answered; the target has its query, as it came."""
        self._served.note(method, target, host_of(headers), status)

    def answered_asgi(self, scope: Any, status: int) -> None:
        """The same by the request's scope."""
        self._served.note(*words_of(scope), status)

    def answered_wsgi(self, environ: Mapping[str, Any], status: object) -> None:
        """The same by its environ, and the status as the application gives it."""
        code = str(status)[:3]
        self._served.note(*words_of_environ(environ), int(code) if code.isdecimal() else 0)

    def stop(self) -> None:
        """Write what there is and stop. Also of a process that becomes a parent in its turn."""
        if self.is_on:
            self.is_on = False
            self._wake()
            self._look()
            self._leave()
            deadline = monotonic() + _END_S
            while self._thread.exists() and monotonic() < deadline:
                sleep(0.001)

    def _leave(self) -> None:
        self.is_on = False
        self._imports.remove()
        if self._compile is not None:
            re._compiler.compile = self._compile  # type: ignore[attr-defined]
            self._compile = None
        if self._exit is not None:
            os._exit = self._exit
            self._exit = None

    def _wake(self) -> None:
        with suppress(RuntimeError):  # it is awake
            self._asleep.release()

    def _run(self, own: int) -> None:
        wait_s, rested_at, news_at = _FIRST_S, 0.0, 0.0
        self._thread = Path(f"/proc/self/task/{get_native_id()}")
        while self.is_on and os.getpid() == own:
            if self._asleep.acquire(timeout=wait_s):
                wait_s = _SOON_S  # an import is about to begin
                continue
            if self._imports.are_under_way() or monotonic() < rested_at:
                wait_s = _FIRST_S
                continue
            began_s = thread_time()
            if self._look():
                wait_s, news_at = _FIRST_S, monotonic()
            else:
                wait_s = min(wait_s * 2, _MAX_S)
            rested_at = monotonic() + (thread_time() - began_s) * _SHARE
            if news_at and monotonic() - news_at > QUIET_S:
                self._leave()

    def _look(self) -> bool:
        """Whether there was something new; it is in the file then, unless that is locked."""
        with self._flushing:
            try:
                profile = profile_of(dict(self._found()))
                if profile.entries != self._known.entries:
                    self._known, self._has_news = profile, True
                elif not self._has_news:
                    return False
                self._has_news = not self._write(profile)
            except RuntimeError:
                pass  # something has changed while it was looked at: the next look sees it
            except Exception as error:
                self._give_up(error)
            return True

    def _found(self) -> Iterator[tuple[str, Iterable[str]]]:
        modules = list(self._imports.modules())
        for name in modules:
            if (line := f"module {name}") not in self._digests:
                self._look_at_value(line, scalars_of(name))
        yield "module", modules
        self._look_at_caches()
        yield "cache", self._grown
        yield "pattern", list(self._patterns)
        self._other["template"].update(set(found.templates()) - self._templates)
        self._other["connection"].update(found.connections())
        yield from self._other.items()
        yield "failed", self.failed
        lines = map(without_secrets, self._served.lines(_MAX_REQUESTS))
        yield "request", [line for line in lines if line is not None]

    def _look_at_caches(self) -> None:
        if len(sys.modules) != self._modules_seen:
            self._modules_seen = len(sys.modules)
            new = list(sys.modules)[self._modules_at_fork :]
            for cached in found.caches_of(new):
                self._caches.setdefault(id(cached), (cached, 0))
        for number, (cached, size) in list(self._caches.items()):
            if cached.cache_info().currsize > size:
                del self._caches[number]
                name = found.name_of_cache(cached)
                if name is not None:
                    self._grown.add(name)
                    self._look_at_value(f"cache {name}", caches.value_of(cached))

    def _look_at_value(self, line: str, value: Any) -> None:
        """Whether what an entry makes is this process's own, as far as it says so by itself.

        Once an entry: what is made later may be made of what users do.
        """
        self._digests.setdefault(line, digest_of(value))
        if self._identity.found_in(value) is not None:
            self._own.add(line)

    def _watch_patterns(self) -> None:
        """Note regular expressions that are in the code that uses them.

        One that is put together may be made of what a user has typed.
        """
        self._compile = compile_pattern = re._compiler.compile  # type: ignore[attr-defined]

        def compile_and_note(pattern: Any, flags: int = 0) -> Any:
            compiled = compile_pattern(pattern, flags)
            if type(pattern) is str and not self._imports.is_importing():
                if len(self._patterns) < _MAX_PATTERNS and _is_literal(pattern):
                    self._patterns[show_pattern(pattern, int(flags))] = None
            return compiled

        re._compiler.compile = compile_and_note  # type: ignore[attr-defined]

    def _write(self, profile: Profile) -> bool:
        """Add it to the file; False if another process has the file for too long."""
        assert self._path is not None
        with (
            suppress(TimeoutError),
            locked(self._path.parent.resolve(), _until_timeout(), _LOCK_POLL_S),
        ):
            before = file.read(self._path) if self._path.exists() else Profile()
            differing = self._compared.differing(self._digests)
            together = before + profile
            failed = {f"request {value}" for value in together.of("failed")}
            together = together.without(differing | self._own | failed)
            if together.entries != before.entries:
                file.write(self._path, together)
            return True
        return False

    def _give_up(self, error: Exception) -> None:
        """Say why nothing is recorded: in the middle of anything, so without the log's locks."""
        text = f"pasture: learn: process {os.getpid()} records nothing more: {error}\n"
        with suppress(OSError):
            os.write(2, text.encode(errors="backslashreplace"))
        self._leave()


def _is_literal(pattern: str) -> bool:
    """Whether a pattern is a constant of the code that has `re` compile it, or of its module."""
    frame = asker(lambda one: one.f_globals.get("__name__") in ("re", __name__))
    if frame is None:
        return False
    constants = frame.f_code.co_consts
    return any(one == pattern for one in constants if type(one) is str) or any(
        one is pattern for one in list(frame.f_globals.values())
    )


def _until_timeout() -> Callable[[float], None]:
    """A pause that raises TimeoutError once all of them have taken too long."""
    deadline = monotonic() + _LOCK_S

    def pause(seconds: float) -> None:
        if monotonic() > deadline:
            raise TimeoutError
        sleep(seconds)

    return pause


recorder = Recorder()
