"""What an image was made of, as it is compared at each start: src/stub/made_of.c.

Files and folders are known by inode and the kernel's time of their last change; where one differs
(in another container, or a copy), files by their content, and folders by what counts in them.
"""

from __future__ import annotations

import os
import posix
import stat
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from pasture.proc import OF_THE_KERNEL
from pasture_image.build import host, search
from pasture_image.build.lookups import ANSWER, LINK, Found
from pasture_image.build.manifest import File, Folder, MadeOf, content_sum
from pasture_image.build.process import stub_of
from pasture_image.inside.order import Order
from pasture_image.inside.record import MISSING, FileTimes, file_times, times_of
from pasture_image.inside.recording import Sought

_HERE = "."
_MAX = (1 << 64) - 1
_TICK_NS = 2_000_000_000
"""No file system has longer ones."""
_START_FILES = ("*.pth", "*.start") if sys.version_info >= (3, 15) else ("*.pth",)
"""In the place of names: what the interpreter reads in folders of its search path at its start."""


def made_of(
    order: Order,
    mapped: Collection[str],
    found: Found,
    sought: Sought,
    open_files: Iterable[str],
) -> MadeOf:
    """Look at all that an image was made of. In the builder.

    Args:
        order: what the image is to be.
        mapped: paths of files that are mapped.
        found: what the load has looked at; what has changed by now is noted there.
        sought: what modules were looked for.
        open_files: paths of files that the image has open to read.

    Raises:
        ImageFailed, OSError: a file cannot be read.
    """
    stub = stub_of(order.python)
    of_mapped = [file_times(path) for path in mapped]
    libraries = {one.path: one for one in _files(stub, of_mapped)}
    opened = [file_times(path) for path in open_files if Path(path).is_file()]
    folders = _folders(found, _names(sought, order.folder))
    now = {path: file_times(path) for path in found.files.keys() & found.changed}
    archives = [file_times(path) for path in _names(sought, order.folder) if Path(path).is_file()]
    files = {**found.files, **now, **{file[0]: file for file in (*opened, *archives)}}
    known = {file[1:] for file in of_mapped}
    for path, file in list(files.items()):
        is_mapped = file[1:] in known and os.path.realpath(path) in mapped
        if is_mapped or file[1:] == tuple(MISSING):
            del files[path]
    return MadeOf(
        tuple(fact.value for fact in host.facts(stub)),
        libraries,
        _files(stub, (file for _, file in sorted(files.items()))),
        folders,
        {
            **{(LINK, path): content_sum(os.fsencode(to)) for path, to in found.links.items()},
            **{(LINK, path): 0 for path in found.plain - found.links.keys()},
            **{
                (ANSWER, path): said
                for path, said in found.answers.items()
                if path not in found.asked
            },
            **{k: v for k, v in found.questions.items() if _counts(k[1], found, sought)},
        },
    )


def _counts(about: int | str, found: Found, sought: Sought) -> bool:
    """Of folders in which modules are looked for, and of what has changed, modules alone count."""
    return isinstance(about, int) or not (
        about in found.changed or any(folder == about for folder, _ in sought)
    )


def _names(sought: Sought, here: str) -> dict[str, set[str]]:
    """What counts in folders in which modules were looked for, as `search.entries` takes it."""
    names: dict[str, set[str]] = {}
    opened = {name for (_, name), where in sought.items() if where == "/" and name[:1] != "*"}
    for (folder, name), where in sought.items():
        is_open = name in opened and not where.strip("/")  # a namespace has a part in any
        place = _HERE if folder == here else folder
        names.setdefault(place, set()).add(f"{name}/" if is_open else name)
    for folder in sys.path:
        names.setdefault(folder, set()).update(_START_FILES)
    names.pop(here, None)
    return {place: counted for place, counted in names.items() if place[:1] in ("/", _HERE)}


def _folders(found: Found, names: Mapping[str, set[str]]) -> tuple[Folder, ...]:
    """All that are compared; a time is read before it is looked what is there."""
    paths = {*names, *found.missing, *found.listed, *_not_implied(found, names)}
    paths = {path for path in paths if not os.path.isfile(path)}  # noqa: PTH113 - an archive
    times = {path: _last_change(path) for path in sorted(paths) if times_of(path) != MISSING}
    times |= {_HERE: (0, 0)} if _HERE in paths else {}  # another one for each program
    times |= {path: (0, 0) for path in times if path.startswith(OF_THE_KERNEL)}
    sums = {path: _sum_of_names(path) for path in found.listed}
    found.changed |= {path for path, before in found.listed.items() if sums.get(path) != before}
    missing = {path: {one for one in absent if path == _HERE or times_of(one) == MISSING}
               for path, absent in found.missing.items()}  # fmt: skip
    found.changed.update(*(found.missing[path] - absent for path, absent in missing.items()))
    return tuple(
        Folder(
            path,
            *last_change,
            tuple(sorted(names.get(path, ()))),
            tuple(sorted(search.entries(path, names[path])))
            if path in names and path != _HERE
            else (),
            tuple(sorted(missing.get(path, ()))),
            sums.get(path),
        )
        for path, last_change in times.items()
    )


def _not_implied(found: Found, names: Collection[str]) -> set[str]:
    """Folders that were there and have nothing below that is compared."""
    implied = set[str]()
    for path in (*found.files, *found.folders, *found.missing, *found.listed, *names):
        while (path := os.path.dirname(path)) not in implied and path:  # noqa: PTH120
            implied.add(path)
    return found.folders - implied


def _sum_of_names(folder: str) -> int | None:
    """As src/stub/content.c, content_sum_of_names."""
    total = 0
    try:
        for name in posix.listdir(folder):
            if name != "__pycache__":
                total += content_sum(os.fsencode(name)) + _kind(f"{folder}/{name}")
    except OSError:
        return None
    return total & _MAX


def _kind(path: str) -> int:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return 0


def ask_again(order: Order, found: Found) -> None:
    """Note which files of the kernel say something else now, to a process of the stub."""
    now = host.sums(stub_of(order.python), found.answers)
    found.asked |= {path for path, said in found.answers.items() if now.get(path, 0) != said}


def _files(stub: Path, files: Iterable[FileTimes]) -> tuple[File, ...]:
    sizes = {path: size for path, _, size, *_ in files}
    sums = host.sums(stub, sizes)
    return tuple(
        File(path, size, *_last_change(path), stat.S_IMODE(os.stat(path).st_mode), sums.get(path))  # noqa: PTH116
        for path, size in sizes.items()
    )


def _last_change(path: str) -> tuple[int, int]:
    """Its inode, and when it was changed; both 0 if that was just now: clocks have ticks."""
    status = os.stat(path)  # noqa: PTH116
    if time.time_ns() - status.st_ctime_ns < _TICK_NS:
        return 0, 0
    return status.st_ino, status.st_ctime_ns
