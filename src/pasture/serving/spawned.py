"""The template that forks in place of spawned processes: the other side of `serving.spawning`.

It begins as a spawned process does, by the same command, up to where that one would take its work.
There it is sealed, and forks a process for each request, which runs that request's command. It is
forked twice, so that it is the program's own child. Invariant: nothing of the program runs here but
the import of its main module and of what is preloaded, and nothing is forked from what a fork would
break, that has changed on disk, or that has read a variable which is another one now.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import mmap
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, NoReturn

from pasture import main_program
from pasture.errors import PastureError
from pasture.own_values import generators
from pasture.refork.mold import ForkFailed, fork_orphan
from pasture.scoreboard.recorder import recorder
from pasture.serving import preload
from pasture.serving.learned import without_auto
from pasture.serving.sealer import Sealer, show_log
from pasture.serving.settings import ServerSettings, read_environment

MAX_FILES = 250
"""That the kernel passes with one message, about. Source: unix(7), SCM_MAX_FD."""
MAX_BYTES = 1 << 16
"""Of a request, and of an answer."""

FORKED = "forked"
"""The answer to a request; any other one is the reason why nothing was forked, after a `!` where
that is this request's alone."""

_NUMBERS = 256
"""Numbers of open files up to here are the program's."""

_HELD = frozenset((signal.SIGINT,))
"""A terminal sends it to this process, too. The program decides what becomes of its children."""


class Preparation(dict[str, Any]):
    """What a spawned process prepares itself with. Observed from before the main module's import:
    generators that seed themselves there are each process's own, variables are noted.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _observed, (dict(self),)


def _observed(data: dict[str, Any]) -> dict[str, Any]:
    _keep_numbers()
    generators.observe()
    _variables.observe()
    return data


_kept: list[int] = []


def _keep_numbers() -> None:
    """Occupy the numbers that files of the program may have: what is opened here gets others."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = _NUMBERS if limit == resource.RLIM_INFINITY else min(_NUMBERS, limit // 4)
    null = os.open(os.devnull, os.O_RDWR)
    while (number := os.dup(null)) < most:
        _kept.append(number)
    os.close(number)
    _kept.append(null)


class _Noted(dict[Any, Any]):
    """The variables, for `os.environ`, which has all of its reads end here."""

    def __init__(self, given: Mapping[Any, Any], names: set[Any]) -> None:
        super().__init__(given)
        self._names = names

    def __getitem__(self, name: Any) -> Any:
        self._names.add(name)
        return super().__getitem__(name)

    def __setitem__(self, name: Any, value: Any) -> None:
        self._names.add(name)
        super().__setitem__(name, value)

    def __delitem__(self, name: Any) -> None:
        self._names.add(name)
        super().__delitem__(name)

    def __iter__(self) -> Iterator[Any]:
        self._names.add(None)
        return super().__iter__()


class _Variables:
    """Which of the environment the import has read or set."""

    def __init__(self) -> None:
        self._read: set[Any] = set()

    def observe(self) -> None:
        self._set(_Noted(os.environ._data, self._read))  # type: ignore[attr-defined]

    def settle(self) -> None:
        self._set(dict(dict.items(os.environ._data)))  # type: ignore[attr-defined]

    def _set(self, variables: dict[Any, Any]) -> None:
        environ: Any = os.environ
        os.environb._data = environ._data = variables  # type: ignore[attr-defined]

    def reader(self, name: str) -> str:
        """Who may have read a variable, in words; "" if none."""
        raw = os.fsencode(name)
        if raw in self._read:
            return "their import has read"
        if None in self._read:
            return "their import has read, as all variables"
        library = next((one for one in _libraries() if _has(one, raw + b"\0")), "")
        return f"{library.rpartition('/')[2]} may have read" if library else ""


_variables = _Variables()


def _libraries() -> list[str]:
    """What is mapped to be executed: C code reads variables by their names."""
    with open("/proc/self/maps") as file:  # noqa: PTH123
        lines = [line.split(None, 5) for line in file]
    return sorted({one[5].strip() for one in lines if "x" in one[1] and "/" in one[-1]})


# A program may change one variable for each of its processes, and libraries are large.
@functools.cache
def _has(path: str, text: bytes) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:  # noqa: PTH123
            return content.find(text) >= 0
    except (OSError, ValueError):
        return True


class Server:
    """Takes the place of the pickled process of a spawned one."""

    def __init__(self, channel: int, library: str, preload: tuple[str, ...]) -> None:
        self._channel, self._library, self._preload = channel, library, preload

    def _bootstrap(self, *sentinel: int) -> NoReturn:
        """Fork as asked until the program ends."""
        for file in sentinel:
            os.close(file)
        context: Any = sys.modules.get(self._library.replace(".spawn", ".context"))
        if hasattr(context, "_default_context"):  # each process sets it, and billiard's once
            context._default_context._actual_context = None
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        show_log()
        try:
            settings = without_auto(read_environment())
            for name in (*self._preload, *settings.preload):
                module, _, function = name.partition(":")
                preload.load((module,), is_needed=settings.strict)
                if function:
                    getattr(sys.modules[module], function)()
        except PastureError as error:
            sys.exit(str(error))
        settings = replace(settings, preload=())
        generators.settle()
        generators.forget()
        _variables.settle()
        _flush()
        sealer = Sealer(settings, server=os.getppid)
        loaded: Mapping[str, object] = {}
        channel = socket.socket(fileno=self._channel)
        while True:
            request, files, *_ = socket.recv_fds(channel, MAX_BYTES, MAX_FILES)
            if not request:
                os._exit(0)  # functions of atexit are for those who do the work
            given = json.loads(request)
            try:
                sealer.before_fork()
                row = recorder.forked()
                answer = _refusal(settings, sealer, loaded)
                answer = answer or _own_refusal(given, files, channel.fileno()) or FORKED
                loaded = loaded or _loaded_files()
                if answer == FORKED and fork_orphan():
                    channel.close()
                    recorder.begin(row)
                    _work(files, mask, **given)
            except (PastureError, ForkFailed, OSError) as error:
                answer = str(error)
            channel.send(answer.encode())
            for file in files:
                os.close(file)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.flush()


def _refusal(settings: ServerSettings, sealer: Sealer, loaded: Mapping[str, object]) -> str:
    """Why a fork would not be as a spawned process is; "" if it would."""
    report = sealer.report
    if report is not None and settings.policy.heap and not report.sealed:
        return "what they are forked from is not sealed"
    hazards = () if report is None else report.hazards
    broken = next((str(one) for one in hazards if not one.survives), "")
    now = _loaded_files() if loaded and not broken else {}
    changed = next((path for path, stamp in loaded.items() if now.get(path, stamp) != stamp), "")
    return broken or (f"{changed} has changed" if changed else "")


def _own_refusal(given: Mapping[str, Any], files: Sequence[int], channel: int) -> str:
    """Why this request's process would not be; "" if it would."""
    for name in given["changed"]:
        if reader := _variables.reader(name):
            return f"!the variable {name!a}, which {reader}, has changed since the first one"
    if len(files) != len(given["numbers"]) + 1:
        return "!too many open files"
    for number, file in zip(given["numbers"], files[1:], strict=True):
        if number not in (*files, *_kept, channel) and not _is_free(number, file):
            return f"!file {number} is in use where they are forked from"
    return ""


def _is_free(number: int, file: int) -> bool:
    try:
        return os.path.sameopenfile(number, file)
    except OSError:
        return True


def _loaded_files() -> dict[str, object]:
    """The file of each module, with what a change of it changes."""
    every: list[Any] = [*sys.modules.values()]
    modules = [one for one in every if issubclass(type(one), ModuleType)]
    # Not by the module's own attribute: a lazy one would be imported.
    spaces = [object.__getattribute__(one, "__dict__") for one in modules]
    paths = {path for space in spaces if isinstance(path := space.get("__file__"), str)}
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _work(
    files: Sequence[int],
    mask: Iterable[Any],
    command: list[str],
    numbers: Sequence[int],
    changed: Mapping[str, str | None],
) -> NoReturn:
    """Run the command of a spawned process, and end as it does. In the new process."""
    answer, *passed = files
    os.write(answer, str(os.getpid()).encode())
    os.close(answer)
    _place(passed, numbers)
    for name, value in changed.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    at = next(i for i, one in enumerate(command) if one in ("-c", "-m"))
    option, what, *rest = command[at:]
    sys.orig_argv[:] = command
    has_main = sys.modules["__main__"] is sys.modules.get("__mp_main__")
    if not has_main:
        sys.modules["__main__"] = main_program.made_module()
    # In a namespace of its own: the module `__main__` may be the program's already.
    code = f"exec({what!a}, {{}})"
    if option == "-m":
        code = f"import runpy; runpy.run_module({what!a}, None, '__main__', {not has_main})"
        code = f"exec({code!a}, {{}})"
    main_program.run("-c", code, [option, *rest], needs_folder=False)
    raise SystemExit


def _place(files: Sequence[int], numbers: Sequence[int]) -> None:
    """Give the files the numbers that they have in the program."""
    free = max((*numbers, 2)) + 1
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, free) for file in files]
    for file in (*files, *_kept):
        os.close(file)
    for file, number in zip(high, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
