"""Copies a process that is stopped, and sends the copy. In the builder."""

from __future__ import annotations

import os
import posix
import signal
from collections.abc import Collection, Sequence
from typing import NoReturn

from pasture.errors import ImageFailed, PastureError
from pasture.fork_safety.open_files import peer
from pasture_image.build import beside, lookups, texts
from pasture_image.build.frozen import Frozen, Opened
from pasture_image.build.made_of import ask_again, made_of
from pasture_image.build.manifest import (
    Needs,
    content_sum,
    write_manifest,
)
from pasture_image.build.regions import OWN, Copy
from pasture_image.inside import environment, memory, observing, record, start_files, variables
from pasture_image.inside.loading import Stopping
from pasture_image.inside.notes import REFUSED, Note
from pasture_image.inside.order import Built, Order, send
from pasture_image.inside.start_variables import beginnings
from pasture_image.inside.written import is_appended

_NAME = "pasture-image"
_STANDARD = frozenset((0, 1, 2))


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
        address, loaded = _wait_until_it_is_stopped(pid, stopping.reader)
        frozen = Frozen(pid, address)
        opened = _open_files(frozen)
        imports = stopping.imports
        logs = {one.path for one in opened if is_appended(one.flags)}
        data = record.read(stopping.record)
        found = lookups.found(data, imports.listed_before, order.folder, logs)
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
        ask_again(order, found)
        _require_allowed(order, found)
        notes = _asked_for(found)
        now = imports.search_again(start_files.MODULES)
        found.changed.update(f"{folder}/{name}" for (folder, name), where in now.items()
                             if imports.sought.get((folder, name), where) != where)  # fmt: skip
        sought = {**imports.sought, **now}
        pages = memory.create(_NAME)
        image = Copy(frozen, pages).take()
        mapped = [source for source in image.sources if source != OWN]
        if found.reads_environment:
            is_of_c = not found.is_asked_by_python
            variables.may_be_asked.update(texts.names_in(mapped) if is_of_c else ())
            if not variables.may_be_asked:
                variables.walkers.add(lookups.ENVIRONMENT)
        asked = variables.may_be_asked
        needed = variables.needed(environ, loaded, order.named)
        walkers, contains = sorted(variables.walkers), tuple(sorted(variables.contains))
        names = beside.names(loaded, imports.names, at_start)
        begin = (*beginnings(loaded), *sorted(variables.begins))
        needs = Needs(order.python, order.options, needed, begin, contains, bool(walkers), names)
        paths = [one.path for one in opened if one.path not in logs]
        kept = made_of(order, mapped, found, sought, paths)
        text = write_manifest(
            *(image, frozen.facts, frozen.auxiliary_vector(), needs),
            *(opened, os.fstat(pages).st_size, kept),
        )
        frozen.close()
        built = Built(
            files=tuple(file.path for file in kept.files),
            changed=tuple(sorted(found.changed | observing.left)),
            left=tuple(sorted(observing.left)),
            modules=loaded,
            variables={
                name: value
                for name, value in needed.items()
                if value is not None or name not in asked
            },
            notes=_notes(walkers, len(asked), found, notes),
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


def _wait_until_it_is_stopped(pid: int, reader: int) -> tuple[int, tuple[str, ...]]:
    """Where its facts are, and the modules that it has loaded."""
    with os.fdopen(reader, "rb") as pipe:
        address, _, loaded = pipe.read().decode("utf-8", "replace").partition("\n")
    # It stays to be waited for: nothing else gets its pid until it is killed.
    state = posix.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    is_stopped = state is not None and state.si_code == os.CLD_STOPPED
    if not is_stopped or not address.isdecimal():
        raise ImageFailed(
            "the process ended before it could be copied", hint="see what it said above"
        )
    return int(address), tuple(loaded.strip().split(","))


def _open_files(frozen: Frozen) -> list[Opened]:
    """What is open besides the standard streams.

    Raises:
        ImageFailed: not all of it can be opened again.
    """
    if frozen.threads() > 1:
        raise ImageFailed(
            "a preloaded module starts a thread in each fork", hint="do not preload it"
        )
    opened = [one for one in frozen.opened() if one.number not in _STANDARD]
    for one in opened:
        if one.is_locked or not _can_be_opened_again(one):
            kept = _named(one.number, one.path)
            raise ImageFailed(
                f"a preloaded module keeps open what a copy cannot have: {kept}",
                hint="do not preload that module, or have it open that later",
            )
    return opened


def _named(number: int, path: str) -> str:
    """What is open, for people. Here it is open under the same number."""
    other_end = peer(number) if path.startswith("socket:") else ""
    if not other_end:
        return path
    by = observing.connected.get(os.fstat(number).st_ino)
    return f"a connection to {other_end}" + (f", opened by {by}" if by else "")


def _can_be_opened_again(one: Opened) -> bool:
    """Whether opening its path gives the same: read or added to, inherited by no program."""
    is_read = one.flags & os.O_ACCMODE == os.O_RDONLY
    is_plain = one.path == "/dev/null" or os.path.isfile(f"/{one.path}")  # noqa: PTH113
    return is_plain and (is_read or is_appended(one.flags)) and one.flags & os.O_CLOEXEC != 0


def _notes(
    walkers: Sequence[str], asked: int, found: lookups.Found, more: tuple[Note, ...]
) -> tuple[Note, ...]:
    return (
        *(Note("variables", walker) for walker in walkers),
        *([Note("asked", str(asked))] if asked else ()),
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
    refused = REFUSED.difference(order.allow)
    left = [n for n in sorted(notes) if n.code in refused and not lookups.is_environment(n.subject)]
    if left:
        options = " ".join(f"--allow {kind}" for kind in sorted({note.code for note in left}))
        raise ImageFailed(
            f"{'; '.join(note.sentence for note in left)}: a start cannot compare that",
            hint=f"do not preload it; with {options} programs get what it was",
        )
