"""What a load has looked at, out of the kernel's record: in the builder, once it is copied.

src/stub/record.c writes it, and `inside.recording` its marks. Owns what of it counts, and how: a
file by its time and size as it was then; a name that was not there by the deepest folder above it,
whose time changes before the name can come; a listing by the names in it; a link by where it leads.
What the load itself has changed does not count (`written`). Its folder was empty: what it looked
for there must not be in the program's. What it asked of the machine is a question that a start asks
again (src/stub/question.c), or refused (`notes.REFUSED`).
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import PurePath

from pasture.proc import OF_THE_KERNEL
from pasture_image.inside.notes import REFUSED, Note
from pasture_image.inside.record import (
    MISSING,
    NOT_THERE,
    FileTimes,
    Lookup,
    counted,
    new_folders,
    parsed,
    times_of,
    writes,
)
from pasture_image.inside.written import CACHE, is_changed

_MAX_LINKS = 40
_MAPS = ("/maps", "/smaps")
"""Of memory, which is the image's."""
_TERMINAL = "/dev/tty"
_STREAMS = ("standard input", "standard output", "standard error", _TERMINAL)
"""That may be terminals; the last one is a program's own, whatever its streams are."""
QUESTIONS = (
    *("uname", "affinity", "limit", "user", "groups", "bind6", "host"),
    *("stream", "terminal", "access", "state", "kind", "link", "answer"),
)
"""As src/stub/question.c numbers them, from 1 on. The last are about a path: for what it can be
opened, what stat(2) says of it, what kind of file it is, where it leads, what the kernel says."""
_STREAM, _IS_TERMINAL, _ACCESS, _STATE, _KIND, LINK, ANSWER = range(8, 15)
_ASKED_AT = 3
"""Bit of the answer to the question for what a path can be opened: for what was asked."""
_MAY_READ = os.O_ACCMODE | os.O_TRUNC
_NO_FOLLOW = 0x100
"""Of fstatat(2)."""
_OWN_LINKS = ("/proc/self/exe", "/proc/self/cwd")
"""Of the process: the first is the interpreter's, the second is known by its text (`kept`)."""
_ASKED = REFUSED.union(QUESTIONS) - {"folder", "access", "stream", "terminal"}
_OF_LOAD = {"statfs": "filesystem", "connect": "network", "bind": "network"}
_MODULES = (".py", ".pyc", ".so")
_RENEWED = {
    ("limit", "/multiprocessing/__pycache__/util."): 1,
    ("user", "-packages/gunicorn/"): 2,
    ("/proc/stat", "/psutil/"): 3,
}
"""How often modules ask a question when they are loaded whose answer `begin` puts right in each
program; what is asked more often than that is another module's."""
ENVIRONMENT = "/proc/self/environ"
_ENVIRON = re.compile(r"/proc/[^/]+/environ")


def is_environment(path: str) -> bool:
    """Whether a file of the kernel's has a process's variables."""
    return _ENVIRON.fullmatch(path) is not None


@dataclass
class Found:
    """What counts of a record.

    Attributes:
        files: that were read or asked for, as they were at the first time.
        missing: paths that were not there, by the deepest folder above each; no links in them.
        folders: that were there.
        listed: a sum of the names in each folder that was listed, not by the import system.
        links: where each link leads that was gone through.
        answers: checksums of what files of the kernel said; 0 for what cannot be compared.
        asked: those that say something else by now, or to another process.
        questions: the answer to each, by its number and argument, which may be a path.
        plain: what was no link, and was asked whether it is one.
        refused: what no start can compare.
        renewed: questions that do not count, and how often they were asked.
        written: by the load itself: the first call that may have changed it.
        is_asked_by_python: whether an environment was opened as Python code does, closed at exec.
        is_blind: whether the kernel kept paths from the recorder.
        is_confined: whether something has given up rights that no program may give up.
        changed: what was there at one time and not at another, or another time or size by then.
    """

    files: dict[str, FileTimes] = field(default_factory=dict)
    missing: dict[str, set[str]] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    listed: dict[str, int] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    questions: dict[tuple[int, int | str], int] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)
    refused: set[Note] = field(default_factory=set)
    renewed: Counter[str] = field(default_factory=Counter)
    written: dict[str, Lookup] = field(default_factory=dict)
    is_asked_by_python: bool = False
    is_blind: bool = False
    is_confined: bool = False
    changed: set[str] = field(default_factory=set)

    def terminals(self) -> list[str]:
        """What was asked for what only terminals answer."""
        return [_STREAMS[which] for number, which in self.questions
                if number == _IS_TERMINAL and isinstance(which, int)]  # fmt: skip

    @property
    def reads_environment(self) -> bool:
        """Whether something has read all variables from the kernel."""
        return any(map(is_environment, self.asked))


def found(data: bytes, listed_before: Iterable[str], here: str, logs: Collection[str]) -> Found:
    """What counts of a record.

    Args:
        listed_before: folders that the import system listed before that was marked.
        here: the working directory, in `new_folders`.
        logs: files that are open to add to.

    Raises:
        ValueError: no recorder writes that.
    """
    all_found = Found()
    imported = {os.path.realpath(folder) for folder in listed_before}
    absent = set[str]()
    root = new_folders(here)[-1]
    lookups = list(parsed(data))
    own, module = lookups[0].thread if lookups else 0, "a module"
    is_library = False  # libgfortran looks at streams when it is loaded, and keeps what they are
    for lookup, is_import, is_loading, is_warmed in counted(lookups):
        path = lookup.path
        if lookup.call == "open":
            module = path if path.endswith(_MODULES) else module
            is_library = ".so" in path
        if lookup.call in ("stream", "input"):
            is_asked = is_loading and not is_library
            if is_asked and (lookup.thread == own or not _is_program(lookup.thread, lookups)):
                _note_stream(all_found, lookup, module)
            continue
        if lookup.call in _ASKED:
            if is_loading and not is_warmed:
                _note_question(all_found, lookup, module)
            continue
        if lookup.call == "folder":
            if is_loading and lookup.thread != own and _is_program(lookup.thread, lookups):
                all_found.refused.add(Note("folder", f"a program that {module} started"))
            continue
        all_found.is_blind |= lookup.call == "blind"
        all_found.is_confined |= is_loading and lookup.call == "confine"
        if lookup.call == "terminal" or path == _TERMINAL:
            if is_loading:
                of_stream = lookup.call == "terminal"
                which = lookup.flags if of_stream else _STREAMS.index(_TERMINAL)
                all_found.questions[_IS_TERMINAL, which] = 0  # the build has none
            continue
        is_of_cache = CACHE in f"{path}/" and (lookup.call != "open" or ".pyc" in path)
        if is_of_cache or not path.startswith("/"):
            continue
        if f"{path}/".startswith(f"{here}/"):
            if is_loading:
                _note_relative(all_found, lookup, path[len(here) + 1 :], module, is_import)
        elif f"{here}/".startswith(f"{path}/") and path.startswith(root):
            if lookup.call == "list" or writes(lookup):
                all_found.refused.add(Note("folder", module))
        elif f"{path}/".startswith(OF_THE_KERNEL):
            if is_loading and not is_warmed and not path.endswith(_MAPS):
                is_child = lookup.thread != own
                of_self = lookup._replace(path=path.replace(f"/proc/{own}/", "/proc/self/", 1))
                _note_kernel(all_found, of_self, module, is_child=is_child)
        elif writes(lookup):
            all_found.written.setdefault(path, lookup)
            if lookup.error in NOT_THERE:
                absent.add(path)
        elif lookup.error in NOT_THERE:
            absent.add(path)
        elif lookup.call in _OF_LOAD:
            if is_loading and not is_warmed:
                all_found.refused.add(Note(_OF_LOAD[lookup.call], module))
        elif lookup.call == "list":
            if not (path in imported if is_import is None else is_import):
                _note_listing(all_found, path, lookup.names)
        elif lookup.error:  # what says no: a folder, or links
            all_found.questions[_KIND, path] = 0
        else:
            _note_there(all_found, lookup)
            if is_loading:
                _note_state(all_found, lookup)
    made = {lookup.path for lookup in lookups if writes(lookup)}  # by a rehearsal, too
    _note_written(all_found, logs)
    _look_upward(all_found, absent, PurePath(here), root)
    for path in made & all_found.listed.keys():
        if times_of(path) == MISSING:
            del all_found.listed[path]
    _settle(all_found, {path for path in absent if path not in made or times_of(path) == MISSING})
    return all_found


def _note_question(all_found: Found, lookup: Lookup, module: str) -> None:
    if lookup.call in REFUSED:
        all_found.refused.add(Note(lookup.call, module))
        return
    if _is_renewed(all_found, lookup.call, module):
        return
    number = QUESTIONS.index(lookup.call) + 1
    argument = lookup.flags if lookup.call == "limit" else 0
    all_found.questions[number, argument] = lookup.names


def _is_renewed(all_found: Found, question: str, module: str) -> bool:
    for (known, part), times in _RENEWED.items():
        if known == question and part in module:
            all_found.renewed[known] += 1
            return all_found.renewed[known] <= times
    return False


def _is_program(thread: int, lookups: Iterable[Lookup]) -> bool:
    """Whether it is no thread of the load's, but executes another program."""
    return any(one.thread == thread and one.call == "exec" for one in lookups)


def _note_stream(all_found: Found, lookup: Lookup, module: str) -> None:
    """The build has files of its own for what is printed."""
    if lookup.call == "input" or lookup.flags:
        all_found.refused.add(Note("process", module))
    else:
        all_found.questions[_STREAM, lookup.flags] = lookup.names


def _note_kernel(all_found: Found, lookup: Lookup, module: str, *, is_child: bool) -> None:
    """A child lists its descriptors to close them."""
    path = lookup.path
    if lookup.call == "open" and _is_renewed(all_found, path, module):
        return
    is_file = lookup.call in ("list", "readlink") or stat.S_ISREG(lookup.mode)
    if lookup.call == "access" and lookup.flags and not lookup.error:
        _note_access(all_found, lookup)
    elif lookup.error or lookup.call in ("stat", "lstat", "access") or not is_file:
        if not writes(lookup):
            all_found.questions[_KIND, path] = stat.S_IFMT(lookup.mode)
    elif lookup.call == "list" and not path.startswith("/proc/"):
        _note_listing(all_found, path, lookup.names)
    elif lookup.call in ("list", "readlink"):
        if not is_child and path not in _OWN_LINKS:
            all_found.asked.add(path)
    elif lookup.call == "open":
        if is_environment(path):
            all_found.is_asked_by_python |= bool(lookup.flags & os.O_CLOEXEC)
            all_found.asked.add(path)
        elif all_found.answers.setdefault(path, lookup.names) != lookup.names:
            all_found.asked.add(path)


def _note_access(all_found: Found, lookup: Lookup) -> None:
    """For what was asked, and what of it may be: bits that add up."""
    before = all_found.questions.get((_ACCESS, lookup.path), 0)
    all_found.questions[_ACCESS, lookup.path] = before | lookup.names


def _note_state(all_found: Found, lookup: Lookup) -> None:
    """What counts of a path besides its content: not the time of a module's file."""
    path = lookup.path
    is_of_link = lookup.call in ("lstat", "readlink") or (
        lookup.call == "stat" and lookup.flags & _NO_FOLLOW
    )
    if is_of_link and not stat.S_ISLNK(lookup.mode):
        all_found.plain.add(path)
    if lookup.call == "access" and lookup.flags:
        _note_access(all_found, lookup)
    elif lookup.call in ("stat", "lstat") and not stat.S_ISLNK(lookup.mode):
        if not path.endswith(_MODULES):
            all_found.questions.setdefault((_STATE, path), lookup.names)


def _note_relative(
    all_found: Found, lookup: Lookup, name: str, module: str, is_import: bool | None
) -> None:
    """The working directory is empty: what was not there must not be in the program's, either."""
    is_asked = lookup.flags if lookup.call == "access" else lookup.call == "list" and not is_import
    if not name and not is_asked:
        return
    if not name or writes(lookup) or not lookup.error:
        all_found.refused.add(Note("folder", module))
    elif lookup.error in NOT_THERE:
        all_found.missing.setdefault(".", set()).add(f"./{name}")


def _look_upward(all_found: Found, absent: set[str], here: PurePath, root: str) -> None:
    """Names that were looked for in the folders above, too: `^/` has each program's searched."""
    missing = all_found.missing.get(".", set())
    names = {one[2:] for one in missing}
    for path in [path for path in absent if path.startswith(root)]:
        absent.discard(path)
        above = next(str(one) for one in here.parents if path.startswith(f"{one}/"))
        name = path[len(above) + 1 :]
        if name in names:
            missing.add(f"^/{name}")
        else:
            all_found.refused.add(Note("folder", path))
    for name in names:
        for path in (str(above / name) for above in here.parents if f"^/{name}" in missing):
            absent.discard(path)
            if path in all_found.files or path in all_found.folders:
                all_found.refused.add(Note("folder", path))


def _note_listing(all_found: Found, path: str, names: int) -> None:
    if all_found.listed.setdefault(path, names) != names:
        all_found.changed.add(path)


def _note_there(all_found: Found, lookup: Lookup) -> None:
    path = lookup.path
    if stat.S_ISREG(lookup.mode):
        times = _times(lookup)
        if all_found.files.setdefault(path, times) != times:
            all_found.changed.add(path)
    elif stat.S_ISDIR(lookup.mode):
        all_found.folders.add(path)
    elif stat.S_ISLNK(lookup.mode):
        all_found.links[path] = ""
    else:
        all_found.questions[_KIND, path] = stat.S_IFMT(lookup.mode)


def _note_written(all_found: Found, logs: Collection[str]) -> None:
    """What is as it was before the load wrote counts like all else: it would not be made."""
    for path, lookup in list(all_found.written.items()):
        if path in logs or is_changed(lookup):
            continue
        del all_found.written[path]
        if lookup.flags & _MAY_READ == os.O_RDWR and stat.S_ISREG(lookup.mode):
            all_found.files.setdefault(path, _times(lookup))
        elif not lookup.error:
            all_found.questions[_KIND, path] = stat.S_IFMT(lookup.mode)
        if lookup.error or lookup.call == "open":  # where it has not been, or is opened
            place = os.path.dirname(path) if lookup.error else path  # noqa: PTH120
            may_be = os.access(place, os.W_OK) * os.W_OK | os.W_OK << _ASKED_AT
            _note_access(all_found, lookup._replace(path=place, names=may_be))


def _times(lookup: Lookup) -> FileTimes:
    changed_ns, size, inode, device = lookup.times
    return lookup.path, changed_ns, size, inode, device


def _settle(all_found: Found, absent: set[str]) -> None:
    """Follow links, compare with what is there now, and leave out what the load has written."""
    modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for path in (all_found.written.keys() & all_found.files.keys()) - modules:
        del all_found.files[path]
    for path, times in all_found.files.items():
        if tuple(times_of(path)) != times[1:]:
            all_found.changed.add(path)
    resolve = _Resolver(all_found.links)
    for path in (*all_found.files, *all_found.folders, *all_found.links):
        resolve(path)
    for path in absent:
        real, above = resolve(path)
        if above is None or real in all_found.written:
            continue
        if above == real:
            all_found.changed.add(path)
        else:
            all_found.missing.setdefault(above, set()).add(real)
    all_found.links = {path: target for path, target in all_found.links.items() if target}
    _forget_written(all_found)
    all_found.changed -= all_found.written.keys() - modules


def _forget_written(all_found: Found) -> None:
    """What the load itself has made, and removed, is not asked again."""
    for number, path in list(all_found.questions):
        if isinstance(path, str) and number in (_ACCESS, _STATE):
            is_own = any(part in all_found.written for part in (path, os.path.dirname(path)))  # noqa: PTH120
            if is_own or times_of(path) == MISSING:
                del all_found.questions[number, path]


class _Resolver:
    """Goes along paths as the kernel does, and notes links."""

    def __init__(self, links: dict[str, str]) -> None:
        self._links = links
        self._known: dict[str, str | None] = {}  # of a path without links: what readlink says

    def __call__(self, path: str) -> tuple[str, str | None]:
        """The path without links, and how far it is there; None if it leads to the kernel's."""
        left, at, is_there, steps = path.split("/")[::-1], "", True, 0
        above = "/"
        while left:
            name = left.pop()
            if name in ("", "."):
                continue
            if name == "..":
                at = at.rpartition("/")[0]
                above = at or "/" if is_there else above
                continue
            at = f"{at}/{name}"
            if f"{at}/" in OF_THE_KERNEL:
                return path, None
            if not is_there:
                continue
            target = self._target(at)
            if target is None:
                is_there = False
            elif target:
                self._links[at] = target
                steps += 1
                if steps > _MAX_LINKS:
                    return path, None
                left += target.split("/")[::-1]
                at = "" if target.startswith("/") else at.rpartition("/")[0]
            else:
                above = at
        return at or "/", above

    def _target(self, path: str) -> str | None:
        """Where a link leads; "" if it is none, None if there is nothing."""
        if path not in self._known:
            try:
                status = os.lstat(path)
                is_link = stat.S_ISLNK(status.st_mode)
                self._known[path] = os.readlink(path) if is_link else ""  # noqa: PTH115
            except OSError:
                self._known[path] = None
        return self._known[path]
