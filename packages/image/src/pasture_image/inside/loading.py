"""The process that an image is made of: it loads modules, seals, and waits to be copied.

`build.process` starts it with the interpreter, the options and the environment that the image is
for. Two processes: the first loads the modules and copies; the second is forked from it, so that
threads which libraries in C have started end as they do in every fork. It seals, and it is what is
copied. Modules may have functions of `os` do something else (gevent closes descriptors later): what
they could keep from ending is called by `posix`.
"""

from __future__ import annotations

import importlib
import os
import posix
import resource
import stat
import sys
import traceback
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from pasture.errors import ImageFailed, PastureError, refused
from pasture_image.inside.notes import Note

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection, Iterable
    from types import ModuleType, TracebackType

    from pasture_image.inside.order import Order
    from pasture_image.inside.recording import Imports
    from pasture_image.inside.trial import Trial
    from pasture_image.inside.variables import VariablesRead

_HIGH_DESCRIPTOR = 900
_AS_PROGRAM = eval("lambda name: __import__(name)", {"__name__": "__main__"})
"""Imports: warnings of a deprecated module are shown to the program, as `python` shows them."""
_ROOM_FOR_DESCRIPTORS = 100


class Stopping(NamedTuple):
    """A process that seals and stops, to be copied; a child of this one.

    Attributes:
        channel: to the process that has ordered the image.
        reader: of a pipe on which it says that it stops.
        environ: descriptor of the environment that the image is made in (`environment`).
        record: descriptor of the record of what the load has looked at (`recording`).
        imports: what it has looked for.
    """

    channel: socket.socket
    order: Order
    pid: int
    reader: int
    environ: int
    record: int
    imports: Imports


def main() -> Stopping | tuple[list[int], int, str, int] | None:
    """Load what the process at the other end of a socket orders.

    The descriptor's number is the only argument of the program.

    Returns:
        The process to be copied, and in that process the arguments of `stopped.wait`; None if there
        is none, and the other end knows why.
    """
    import socket

    from pasture_image.inside import locales, recording, streams

    imports = recording.Imports()
    imports.start()
    streams.remember()
    locales.remember()
    channel = socket.socket(fileno=int(sys.argv[1]))
    from pasture.proc.parent import end_with_parent
    from pasture_image.inside.order import receive

    end_with_parent(posix.getppid())  # the recorder, without which no call is answered
    try:
        order, environ, record = receive(channel)
    except EOFError:
        return None  # the other end is gone
    except (MemoryError, OSError) as error:
        _refuse(channel, refused(error) or ImageFailed(f"the order cannot be read: {error}"))
        return None
    with recording.own():
        _forget_own_start()
    close = [channel.fileno(), record]
    try:
        _load(order, environ, close, record)
        imports.stop()
        streams.flush()
        from pasture.fork_safety import fork_aware
        from pasture_image.inside import rehearsal

        rehearsal.choose_code(order.rehearse, environ, close, warmed=bool(order.warm))
        unused = fork_aware.sockets()
        reader, writer = os.pipe()
        parent = os.getpid()
        pid = os.fork()
    except PastureError as error:
        _refuse(channel, error)
        return None
    except (MemoryError, OSError) as error:  # modules' own are `load`'s
        _refuse(channel, refused(error) or ImageFailed(f"modules cannot be loaded: {error}"))
        return None
    if pid == 0:
        _put_null(unused)
        return [channel.detach(), reader, environ, record], writer, order.python, parent
    posix.close(writer)
    return Stopping(channel, order, pid, reader, environ, record, imports)


def _refuse(channel: socket.socket, why: PastureError) -> None:
    """Say to the other end why no process is to be copied."""
    from pasture_image.inside.order import Built, send

    send(channel, Built(problem=why.message, hint=why.hint), [])


def _forget_own_start() -> None:
    """This process has arguments and a variable of its own."""
    from pasture_image.inside import program

    program.begin_loading()
    os.environ.pop("LD_BIND_NOW", None)


def _load(order: Order, environ: int, close: list[int], record: int) -> None:
    """Import modules, and record what they look at.

    Those that a rehearsal imports are found out before, by a process that nothing is recorded of.

    Raises:
        ImageFailed: not all of that can be recorded.
    """
    from pasture.own_values import generators
    from pasture_image.inside import (
        begin,
        loops,
        observing,
        output,
        process_state,
        program,
        recording,
    )
    from pasture_image.inside.trial import Trial
    from pasture_image.inside.variables import VariablesRead

    loops.begin()
    rehearsed: tuple[str, ...] = ()
    if order.rehearses_imports:
        from pasture_image.inside import rehearsal

        with recording.own():
            rehearsed = rehearsal.imported(order.rehearse, order.preload, environ, close)
    recorder = output.Recorder()
    with recording.own():
        taken = _take_low_descriptors()
        trial = Trial(lambda: _load_modules(order, rehearsed), environ, close)
        before, began_s = process_state.read(), monotonic()
    with trial:
        with (
            VariablesRead(environ) as variables,
            observing.Observed(variables.read_all),
            generators.observed(),
            recorder,
        ):
            _load_modules(order, rehearsed)
            if order.warm:
                _warm(order, variables)
        recording.mark(recording.OWN)
        program.end_loading()
        load_s = monotonic() - began_s
        changed = process_state.changed(before, process_state.read())
        observing.note(Note("state", words) for words in changed)
        begin.asked_signals = frozenset(observing.signals)
        _compare(trial, record, load_s)
    for number in taken:
        posix.close(number)


def _load_modules(order: Order, rehearsed: Iterable[str]) -> None:
    from pasture_image.inside import observing, output

    for name in order.preload:
        observing.occasion = f"while {name} was loaded"
        load(name)
        output.take(name)
    for name in rehearsed:
        with suppress(Exception):  # what only the rehearsal can import, it imports
            importlib.import_module(name)


def _warm(order: Order, variables: VariablesRead) -> None:
    from pasture.interpreter import native
    from pasture_image.inside import recording
    from pasture_image.inside.warm import find, warm

    application = find(order.preload, order.application, load)
    recording.mark(recording.WARMED)
    native().forget_code_runs()  # what the warm-up runs is what programs will run
    with variables.put_back():
        warm(application, order.warm)


def _compare(trial: Trial, record: int, load_s: float) -> None:
    """Take over what a second load has shown."""
    from pasture_image.inside import begin, observing, program, variables

    outcome = trial.outcome(load_s)
    begin.seeded = outcome.again_as_seeded()
    variables.narrow(outcome.walks, outcome.asked)
    program.set_in_c.update(outcome.set_in_c)
    program.questions = tuple(program.Question(*question) for question in outcome.questions)
    kept = trial.compared(record, load_s)
    differ = {owner for _, one in kept for owner in (one, one.rpartition(".")[0])}
    program.readers = tuple(sorted({*outcome.readers} | differ.intersection(outcome.askers)))
    observing.note(Note("arguments", reader) for reader in program.readers)
    observing.note(n for n in kept if n.code != "folder" or not program.has_folder(n[1]))


def load(name: str) -> ModuleType:
    """Import a module that was named.

    Raises:
        ImageFailed: it cannot be imported. Standard error has its traceback, unless the name itself
            is the mistake.
    """
    try:
        _AS_PROGRAM(name)
        return sys.modules[name]
    except (Exception, SystemExit) as error:
        hint = "PYTHONPATH names the folders of modules of your own, each from / on"
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{name}.".startswith(f"{missing}."):
            traceback.print_exception(error.with_traceback(_own(error.__traceback__)))
            hint = "see its traceback above"
        last = traceback.format_exception_only(error)[-1].strip()
        raise ImageFailed(f"{name} cannot be imported: {last}", hint=hint) from None


def _own(entry: TracebackType | None) -> TracebackType | None:
    """A traceback from the first line on that is not the import's."""
    ours = (
        __name__,
        "__main__",
        "importlib",
        "importlib._bootstrap",
        "importlib._bootstrap_external",
    )
    while entry is not None and entry.tb_frame.f_globals.get("__name__") in ours:
        entry = entry.tb_next
    return entry


def _take_low_descriptors() -> list[int]:
    """So that files which modules keep open get numbers that programs seldom have."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    above = min(_HIGH_DESCRIPTOR, limit - _ROOM_FOR_DESCRIPTORS)
    taken = []
    while (number := os.dup(0)) < above:
        taken.append(number)
    posix.close(number)
    return taken


def _put_null(inodes: Collection[int]) -> None:
    """In the place of connections that their library does not use in another process.

    What it then closes must be there.
    """
    if not inodes:
        return
    from pasture.fork_safety.open_files import open_files

    null = os.open("/dev/null", os.O_RDONLY)
    for number, status in open_files():
        if status.st_ino in inodes and stat.S_ISSOCK(status.st_mode):
            os.dup2(null, number, inheritable=False)
    posix.close(null)
