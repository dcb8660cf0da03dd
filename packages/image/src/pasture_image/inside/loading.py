"""The process that an image is made of: it loads modules, seals, and waits to be copied.

`build.process` starts it with the interpreter, the options and the environment that the image is
for. Two processes: the first loads the modules and copies; the second is forked from it, so that
threads which libraries in C have started end as they do in every fork. It seals, and it is what is
copied. Modules may have functions of `os` do something else (gevent closes descriptors later): what
they could keep from ending is called by `posix`.
"""

from __future__ import annotations

import marshal
import os
import posix
import resource
import stat
import sys
from collections import namedtuple
from contextlib import suppress
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pasture.errors import ImageFailed, PastureError, refused
from pasture.interpreter import native
from pasture.own_values import generators
from pasture.proc.parent import end_with_parent
from pasture_image.inside import (
    begin,
    locales,
    loops,
    observing,
    output,
    process_state,
    program,
    recording,
    start_files,
    streams,
    trial,
    variables,
)
from pasture_image.inside.apart import Apart

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from types import ModuleType

    from pasture_image.inside.order import Order

_HIGH_DESCRIPTOR = 900
_AS_PROGRAM = eval("lambda name: __import__(name)", {"__name__": "__main__"})
"""Imports: warnings of a deprecated module are shown to the program, as `python` shows them."""
_ROOM_FOR_DESCRIPTORS = 100
_IMPORTS = ("pasture_image", "__main__", "importlib")


class Stopping(namedtuple("Stopping", "channel order pid reader environ record imports")):
    """A process that seals and stops, to be copied; a child of this one.

    Attributes:
        channel: descriptor of a socket: the process that has ordered the image.
        reader: of a pipe on which it says that it stops.
        environ: descriptor of the environment that the image is made in (`environment`).
        record: descriptor of the record of what the load has looked at (`recording`).
        imports: what it has looked for.
    """

    __slots__ = ()


def main() -> Stopping | tuple[list[int], int, str, int, set[str]] | None:
    """Load what is ordered.

    The descriptors of a socket and of files (`process.FILES`) are the program's only argument.

    Returns:
        The process to be copied, and in that process the arguments of `stopped.wait`; None if there
        is none, and the other end knows why.
    """
    numbers = [int(number) for number in sys.argv[1].split(",")]
    named = start_files.begin_again(numbers[2])
    variables.read.update(named)
    variables.begins.update(name for name in named if name.endswith("_"))
    program.begin_loading()  # from here on nothing is looked for in the working directory
    program.changed.update(start_files.set_variables())
    os.environ.pop("LD_BIND_NOW", None)
    imports = recording.Imports()
    imports.start()
    streams.remember()
    locales.remember()
    end_with_parent(posix.getppid())  # the recorder, without which no call is answered
    for number in numbers:
        os.set_inheritable(number, False)
    channel, ordered, environ, record, *files = numbers
    order: Any = SimpleNamespace(
        **marshal.loads(posix.pread(ordered, posix.fstat(ordered).st_size, 0))
    )
    posix.close(ordered)
    close = [channel, record]
    try:
        kept = _load(order, environ, close, record, files)
        imports.stop()
        begin.of_packages = frozenset(imports.of_packages)
        streams.flush()
        if order.rehearse:
            from pasture_image.inside import rehearsal

            rehearsal.choose_code(order.rehearse, environ, close, warmed=bool(order.warm))
        unused: Collection[int] = ()
        if _sockets() != [channel]:
            from pasture.fork_safety import fork_aware

            unused = fork_aware.sockets()  # which their library does not use in another process
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
        return [channel, reader, environ, record], writer, order.python, parent, kept
    posix.close(writer)
    return Stopping(channel, order, pid, reader, environ, record, imports)


def _refuse(channel: int, why: PastureError) -> None:
    """Say to the other end why no process is to be copied."""
    from pasture_image.inside.order import Built, send

    send(channel, Built(problem=why.message, hint=why.hint), [])


def _load(
    order: Order, environ: int, close: list[int], record: int, files: Sequence[int]
) -> set[str]:
    """Import modules, and record what they look at.

    Args:
        files: descriptors of two empty ones, for what is printed.

    Returns:
        Names of all modules that are there then, without those of a warm-up.

    Raises:
        ImageFailed: not all of that can be recorded.
    """
    loops.begin()
    recorder = output.Recorder(files)
    with recording.own():
        taken = _take_low_descriptors()
        start_files.require_run()
        second = Apart(lambda: trial.reported(lambda: _load_modules(order)), environ, close)
        before, began_s, keys = process_state.read(), monotonic(), trial.keys()
    with second:
        with (
            variables.VariablesRead(environ) as read,
            observing.Observed(read.read_all),
            generators.observed(),
            recorder,
        ):
            _load_modules(order, program.require_unchanged)
            kept = {*sys.modules}
            if order.warm:
                _warm(order, read)
        recording.mark(recording.OWN)
        program.end_loading(order.folder)
        load_s = monotonic() - began_s
        changed = process_state.changed(before, process_state.read())
        observing.note(("state", words) for words in changed)
        begin.asked_signals = frozenset(observing.signals)
        _take_over(trial.outcome(second, load_s), keys)
        _note_kept(order, record, environ, close, load_s)
    for number in taken:
        posix.close(number)
    return kept


def _load_modules(order: Order, look: Callable[[str], object] = str) -> None:
    for name in order.preload:
        observing.occasion = f"while {name} was loaded"
        load(name)
        look(name)
        output.take(name)


def _warm(order: Order, read: variables.VariablesRead) -> None:
    from pasture_image.inside.warm import find, warm

    application = find(order.preload, order.application, load)
    recording.mark(recording.WARMED)
    native().forget_code_runs()  # what the warm-up runs is what programs will run
    with read.put_back():
        warm(application, order.warm)


def _take_over(outcome: trial.Outcome, before: dict[str, bytes]) -> None:
    """What a second load has shown; `random` came to the same in both if modules have seeded it.

    Args:
        before: the keys of processes that were drawn before the loads.
    """
    begin.keys.update(trial.keys().items() & outcome.keys.items() - before.items())
    if outcome.generator == (state := trial.generator()):
        begin.seeded = state
    variables.narrow(outcome.walks, outcome.asked)
    program.set_in_c.update(outcome.set_in_c)
    program.questions = outcome.questions
    observing.note(("arguments", reader) for reader in outcome.readers)
    observing.note(("folder", reader) for reader in outcome.of_path)


def _note_kept(order: Order, record: int, environ: int, close: list[int], load_s: float) -> None:
    """Note what modules keep of their process and leave in files, found out in another one.

    Raises:
        ImageFailed: it is not known.
    """

    def look() -> bytes:
        from pasture_image.inside import kept, written
        from pasture_image.inside import record as recorded

        folders = recorded.new_folders(order.folder)
        parts = {path.rpartition("/")[2]: "folder" for path in folders}
        parts |= {os.uname().nodename.lower(): "host"}
        drawn = set(trial.keys().items()) - begin.keys.items()  # each program draws another one
        parts |= {os.fsdecode(key).lower(): "process" for _, key in drawn}
        each, once = written.left(recorded.read(record))
        notes = [*kept.found(parts, sys.path), *(("made", path) for path in each)]
        return marshal.dumps((notes, once))

    apart = Apart(look, environ, [number for number in close if number != record])
    notes, once = apart.found(load_s, "what modules keep of their process is not known")
    observing.note(notes)
    observing.left.update(once)


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
        import traceback

        hint = "PYTHONPATH names the folders of modules of your own, each from / on"
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{name}.".startswith(f"{missing}."):
            entry = error.__traceback__  # of the import itself nothing is shown
            while entry and str(entry.tb_frame.f_globals.get("__name__")).split(".")[0] in _IMPORTS:
                entry = entry.tb_next
            traceback.print_exception(error.with_traceback(entry))
            hint = "see its traceback above"
        last = traceback.format_exception_only(error)[-1].strip()
        raise ImageFailed(f"{name} cannot be imported: {last}", hint=hint) from None


def _take_low_descriptors() -> list[int]:
    """So that files which modules keep open get numbers that programs seldom have."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    above = min(_HIGH_DESCRIPTOR, limit - _ROOM_FOR_DESCRIPTORS)
    taken = []
    while (number := os.dup(0)) < above:
        taken.append(number)
    posix.close(number)
    return taken


def _sockets() -> list[int]:
    found = []
    for name in posix.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one with which the folder was listed
            if stat.S_ISSOCK(posix.fstat(int(name)).st_mode):
                found.append(int(name))
    return found


def _put_null(inodes: Collection[int]) -> None:
    """In the place of connections: what their library then closes must be there."""
    null = os.open("/dev/null", os.O_RDONLY)
    for number in _sockets() if inodes else ():
        if posix.fstat(number).st_ino in inodes:
            os.dup2(null, number, inheritable=False)
    posix.close(null)
