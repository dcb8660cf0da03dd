"""A process that has just come to life out of an image becomes an interpreter at its start.

Owns everything that the interpreter derives from the process when it starts, and everything that
modules derive from it when they are loaded: environment, streams, signals; arguments and `__main__`
by `program`. What runs the program is the interpreter's own main function.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from _thread import get_ident
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from pasture import main_program
from pasture.own_values import generators
from pasture.sealing import exit
from pasture_image.inside import end, locales, loops, program, reread, streams

_python = ""

pids: set[int] = set()
"""Of the processes that the image was made in. Generators that compare the id of their process
(OpenSSL, SQLite, tempfile) would take a program under one of them for that one."""


seeded: Any = None
"""The state of `random`, where a module has seeded it; else each program has its own."""

PROCESSES = ("multiprocessing", "billiard")
"""Libraries of processes, each of which draws a key."""

keys: dict[str, bytes] = {}
"""Of these, the keys that modules have set."""

of_packages: frozenset[str] = frozenset()
"""Modules that their packages load."""

asked_signals: frozenset[int] = frozenset()
"""As `observing.signals`: the image was made with none of them ignored or blocked."""


def prepare(python: str) -> None:
    """Keep what a program will need. In the process that will be copied.

    Args:
        python: path of the interpreter that this one stands for.
    """
    global _python
    _python = python
    pids.update((os.getpid(), os.getppid()))
    streams.flush()
    _seed_openssl()  # it looks its algorithms up at the first call
    end.keep_modules()
    exit.before_leaving(end.finish)


def begin(
    argv: Sequence[bytes],
    environ: Sequence[bytes],
    ignored: int,
    kind: str,
    text: bytes,
    rest: int,
) -> NoReturn:
    """Run the program that the arguments name, and end as the interpreter does.

    Args:
        argv: of the process.
        environ: its variables, as `NAME=VALUE`.
        ignored: bit N - 1 for each signal N that was ignored before.
        kind: `c` for a command, `m` a module, `f` a file, `s` standard input.
        text: the command, or the name.
        rest: index of the first argument that is the program's own.
    """
    words, name = [os.fsdecode(word) for word in argv], os.fsdecode(text)
    try:
        _take_environ(environ)
        end.begin_program()
        if os.getpid() in pids:
            raise RuntimeError("a process that the image was made in had this process's id")
        _take_signals(ignored)
        locales.begin_program()
        _change_environ()
        streams.open_standard()
        loops.begin_program()
        generators.renew(other_machine=True)
        _seed_openssl()
        if seeded is not None:
            sys.modules["random"].setstate(seeded)
        _forget_modules_past()
        reread.read_again(sys.modules, os.environ)
        needs_folder = program.begin_program(
            [f"-{kind}" if kind in "cm" else name, *words[rest:]],
            [_python, *words[1:]],
        )
        for one in (name, f"{name}.__main__") if kind == "m" else ():
            # Where a package loads it itself, `-m` warns of that, and runs it a second time.
            is_package = hasattr(sys.modules.get(one), "__path__")
            if "." in one and not is_package and one not in of_packages:
                sys.modules.pop(one, None)
        what = main_program.absolute(name) if kind == "f" else name  # in the program's directory
        _switch_on_seal()
    except Exception as error:
        _start_over(argv, environ, error)
    option = {"c": "-c", "m": "-m", "s": "-"}.get(kind, "")
    main_program.run(option, what, sys.argv, needs_folder=needs_folder)
    raise AssertionError("the interpreter's main function does not return")


def _start_over(argv: Sequence[bytes], environ: Sequence[bytes], error: Exception) -> NoReturn:
    """Nothing of the program has run: the interpreter itself can still do it.

    `pasture-python`, which this is, says why and starts it; without /proc it is started at once.
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    given = {n: v for n, _, v in (variable.partition(b"=") for variable in environ)}
    why = f"{type(error).__name__}: {error}".replace("\0", "?").encode("utf-8", "replace")
    with suppress(OSError):
        os.execve("/proc/self/exe", list(argv), {**given, b"_PASTURE_FAILED": why})
    os.execve(_python, list(argv), given)


def _take_environ(environ: Sequence[bytes]) -> None:
    """As posixmodule.c fills `posix.environ`: the first of two with one name counts."""
    data: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
    data.clear()
    for variable in environ:
        name, separator, value = variable.partition(b"=")
        if separator:
            data.setdefault(name, value)


def _change_environ() -> None:
    """As start files and modules have."""
    for changed, to in program.changed.items():
        if to is None:
            os.environ.pop(changed, None)
        else:
            os.environ[changed] = to
    for name_in_c, value_in_c in program.set_in_c.items():
        os.putenv(name_in_c, value_in_c)


def _take_signals(ignored: int) -> None:
    if 0 in asked_signals and signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        raise RuntimeError("a module has asked which signals are blocked, and some are")
    numbers = {number for number in range(1, 65) if ignored >> (number - 1) & 1}
    by_default = {signal.SIGPIPE, signal.SIGXFSZ}  # ignored by the interpreter in any case
    for number in numbers & asked_signals - by_default:
        raise RuntimeError(f"a module has asked for signal {number}, which is ignored")
    for number in numbers:
        handler = signal.getsignal(number)
        if handler in (signal.SIG_DFL, signal.default_int_handler) and number not in by_default:
            handler = signal.SIG_IGN
        if handler is not None:  # of Python's
            signal.signal(number, handler)


def _seed_openssl() -> None:
    """It notices a fork, and no other copy."""
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_add(os.urandom(32), 0.0)


def _forget_modules_past() -> None:
    """What modules know of the process that loaded them."""
    loaded: dict[str, Any] = sys.modules
    for name in PROCESSES:
        process = loaded.get(f"{name}.process")
        if process is not None:
            config = process._current_process._config
            if config["authkey"] != keys.get(name):
                config["authkey"] = type(config["authkey"])(os.urandom(32))
        if f"{name}.util" in loaded:
            loaded[f"{name}.util"].MAXFD = os.sysconf("SC_OPEN_MAX")
            for last_work in loaded[f"{name}.util"]._finalizer_registry.values():
                last_work._pid = os.getpid()
    if "celery.utils.nodenames" in loaded:  # celery 5
        loaded["celery.utils.nodenames"].gethostname.clear()
    if "psutil" in loaded:  # psutil 5 to 7: what the first answers are compared with
        psutil, thread = loaded["psutil"], get_ident()
        for end in ("", "_2"):
            setattr(psutil, f"_last_cpu_times{end}", {thread: psutil.cpu_times()})
            setattr(psutil, f"_last_per_cpu_times{end}", {thread: psutil.cpu_times(percpu=True)})
    if "platform" in loaded:
        loaded["platform"]._uname_cache = None
    if "logging" in loaded:
        logging = loaded["logging"]
        now = time.time_ns() if isinstance(logging._startTime, int) else time.time()
        logging._startTime = now


def _switch_on_seal() -> None:
    """`PASTURE=seal`: the start file has run, when the variable was not there."""
    if not os.environ.get("PASTURE") or sys.flags.no_site:
        return
    try:
        import pasture_auto
    except ImportError:
        return
    pasture_auto.start()
    pasture_auto.catch_up()
