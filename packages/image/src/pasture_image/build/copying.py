"""Copies a process that is stopped, and sends the copy. In the builder."""

from __future__ import annotations

import os
import posix
import signal
import stat
import sys
from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from pasture.errors import ImageFailed, PastureError
from pasture.fork_safety.open_files import peer
from pasture_image.build import beside, lookups, texts
from pasture_image.build.frozen import Frozen
from pasture_image.build.made_of import made_of
from pasture_image.build.manifest import (
    Needs,
    OpenFile,
    content_sum,
    is_appended,
    write_manifest,
)
from pasture_image.build.regions import OWN, Copy
from pasture_image.inside import environment, memory, observing, record, variables
from pasture_image.inside.loading import Stopping
from pasture_image.inside.notes import REFUSED, Note
from pasture_image.inside.order import Built, Order, send
from pasture_image.inside.start_variables import beginnings

_NAME = "pasture-image"
_DEVICES = frozenset(("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"))
_STANDARD = frozenset((0, 1, 2))
_START_MODULES = ("sitecustomize", "usercustomize")


def copy_and_send(stopping: Stopping, at_start: Collection[str]) -> NoReturn:
    """Send an image of a process, or why there is none; both processes end.

    Args:
        stopping: the process, a child of this one.
        at_start: names of the modules that the interpreter had loaded before its program.
    """
    channel, order, pid, *_ = stopping
    try:
        # The process that is copied has been forked: from now on all variables may be in memory.
        environ = environment.read(stopping.environ)
        address, report, loaded = _wait_until_it_is_stopped(pid, stopping.reader)
        frozen = Frozen(pid, address)
        opened = _open_files(frozen)
        imports = stopping.imports
        found = lookups.found(record.read(stopping.record), imports.listed_before, order.folder)
        if found.is_blind:
            raise ImageFailed(
                "the kernel lets nothing record what modules look at",
                hint="kernel.yama.ptrace_scope has to be 0 or 1, and modules stay dumpable",
            )
        if found.is_confined:
            raise ImageFailed(
                "a preloaded module changes what a copy of its process has not: new privileges",
                hint="do not preload it, or have it do that when a program runs",
            )
        _require_allowed(order, found)
        notes = _asked_for(found)
        now = imports.search_again(_START_MODULES)
        found.changed.update(f"{folder}/{name}" for (folder, name), where in now.items()
                             if imports.sought.get((folder, name), where) != where)  # fmt: skip
        sought = {**imports.sought, **now}
        pages = memory.create(_NAME)
        image = Copy(frozen, pages).take()
        mapped = [source for source in image.sources if source != OWN]
        if found.reads_environment:
            is_of_c = not found.is_asked_by_python
            variables.note_asked(texts.names_in(mapped) if is_of_c else (), lookups.ENVIRONMENT)
        asked = variables.may_be_asked()
        needed = variables.needed(environ, loaded, order.named)
        walkers, names = variables.walkers(), beside.names(loaded, imports.names, at_start)
        begins, contains = variables.looked_for()
        begin = (*beginnings(loaded), *begins)
        needs = Needs(order.python, order.options, needed, begin, contains, bool(walkers), names)
        paths = [one.path for one in opened if not is_appended(one.flags)]
        kept = made_of(order, mapped, found, sought, paths)
        text = write_manifest(
            *(image, frozen.facts, frozen.layout(), frozen.auxiliary_vector(), needs),
            *(opened, os.fstat(pages).st_size, kept),
        )
        frozen.close()
        built = Built(
            seal=report,
            files=tuple(file.path for file in kept.files),
            changed=tuple(sorted(found.changed)),
            modules=loaded,
            variables={
                name: value
                for name, value in needed.items()
                if value is not None or name not in asked
            },
            notes=_notes(walkers, len(asked), found, notes),
            sizes=image.sizes,
            libraries=tuple(sorted(kept.libraries)),
        )
        send(channel, built, [memory.written(_NAME, text), pages])
    except PastureError as error:
        send(channel, Built(problem=error.message, hint=error.hint), [])
    except ConnectionError:
        pass  # the process that has ordered it was ended
    except OSError as error:
        send(channel, Built(problem=f"the process cannot be copied: {error}"), [])
    finally:
        os.kill(pid, signal.SIGKILL)
        posix.waitpid(pid, 0)
    os._exit(0)  # what it has loaded need not be taken apart


def _wait_until_it_is_stopped(pid: int, reader: int) -> tuple[int, str, tuple[str, ...]]:
    """Where its facts are, the seal's report, and the modules that it has loaded."""
    with os.fdopen(reader, "rb") as pipe:
        line, _, loaded = pipe.read().decode("utf-8", "replace").partition("\n")
    address, _, report = line.partition(" ")
    # It stays to be waited for: nothing else gets its pid until it is killed.
    state = posix.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    is_stopped = state is not None and state.si_code == os.CLD_STOPPED
    if not is_stopped or not address.isdecimal():
        raise ImageFailed(
            "the process ended before it could be copied", hint="see what it said above"
        )
    return int(address), report, tuple(loaded.strip().split(","))


def _open_files(frozen: Frozen) -> list[OpenFile]:
    """What is open besides the standard streams.

    Raises:
        ImageFailed: not all of it can be opened again.
    """
    if frozen.threads() > 1:
        raise ImageFailed(
            "a preloaded module starts a thread in each fork", hint="do not preload it"
        )
    found = []
    for number, path in frozen.descriptors().items():
        if number not in _STANDARD:
            flags, offset = frozen.descriptor_state(number)
            if frozen.is_locked(number) or not _can_be_opened_again(path, flags):
                kept = _named(number, path)
                raise ImageFailed(
                    f"a preloaded module keeps open what a copy cannot have: {kept}",
                    hint="do not preload that module, or have it open that later",
                )
            found.append(OpenFile(number, path, flags, offset))
    return found


def _named(number: int, path: str) -> str:
    """What is open, for people. Here it is open under the same number."""
    other_end = peer(number) if path.startswith("socket:") else ""
    if not other_end:
        return path
    by = observing.connected.get(os.fstat(number).st_ino)
    return f"a connection to {other_end}" + (f", opened by {by}" if by else "")


def _can_be_opened_again(path: str, flags: int) -> bool:
    """Whether opening a path gives the same: only read, or added to, and no program inherits it."""
    is_read = flags & os.O_ACCMODE == os.O_RDONLY
    if not (is_read or is_appended(flags)) or not flags & os.O_CLOEXEC:
        return False
    try:
        status = Path(path).stat() if path.startswith("/") else None
    except OSError:
        return False
    if status is None:
        return False
    return stat.S_ISREG(status.st_mode) or (is_read and path in _DEVICES)


def _notes(
    walkers: tuple[str, ...], asked: int, found: lookups.Found, more: tuple[Note, ...]
) -> tuple[Note, ...]:
    started = [name for name in _START_MODULES if _reads_variables(sys.modules.get(name))]
    return (
        *(Note("variables", walker) for walker in walkers),
        *([Note("asked", str(asked))] if asked else ()),
        *(Note("startup", name) for name in started),
        *(Note("file", path) for path in sorted(found.rewritten)),
        *sorted(found.refused),
        *(Note("kernel", path) for path in sorted(found.asked)),
        *(Note("terminal", name) for name in found.terminals()),
        *more,
    )


def _asked_for(found: lookups.Found) -> tuple[Note, ...]:
    """Have the host's name compared if modules asked for it and keep it; notes."""
    notes = observing.notes()
    if all(number != 1 for number, _ in found.questions):
        return tuple(note for note in notes if note.code != "host")
    if any(note.code == "host" for note in notes):
        number = lookups.QUESTIONS.index("host") + 1
        found.questions[number, 0] = content_sum(os.fsencode(os.uname().nodename))
    return notes


def _require_allowed(order: Order, found: lookups.Found) -> None:
    """Raise ImageFailed if modules ask what no start can compare, and that is not allowed."""
    notes = (*found.refused, *(Note("kernel", path) for path in found.asked), *observing.notes())
    not_allowed = REFUSED.difference(order.allow)
    for note in sorted(notes):
        if note.code in not_allowed and not lookups.is_environment(note.subject):
            raise ImageFailed(
                f"{note.sentence}, and a start cannot compare that",
                hint=f"do not preload it; with --allow {note.code} programs get what it was",
            )


def _reads_variables(module: ModuleType | None) -> bool:
    try:
        text = Path(getattr(module, "__file__", None) or "").read_bytes()
    except (OSError, ValueError):
        return False
    return b"environ" in text or b"getenv" in text
