"""What an image was made of, as it is compared at each start: src/stub/made_of.c.

It is used in other containers and after a reboot, where devices and inodes are others. So libraries
are known by their content, Python files by size and time as a `.pyc` knows its source, and folders
by the modules in them.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pasture_image.build import host, processors
from pasture_image.build.build_id import BuildId, build_id
from pasture_image.build.manifest import MadeOf, Searched
from pasture_image.build.process import stub_of
from pasture_image.build.search import SearchFolder
from pasture_image.inside.order import Order
from pasture_image.inside.times import MISSING, FileTimes, file_times, times_of


def made_of(
    order: Order,
    mapped: Iterable[str],
    files: Sequence[FileTimes],
    folders: Mapping[str, Sequence[str]],
    open_files: Iterable[str],
    modules: Iterable[str],
) -> MadeOf:
    """Look at all that an image was made of. In the builder.

    Args:
        order: what the image is to be.
        mapped: paths of files that are mapped.
        files: that were read.
        folders: names of modules by the folder where they are looked for.
        open_files: paths of files that the image has open to read.
        modules: names of those that it has loaded.

    Raises:
        ImageFailed, OSError: a file cannot be read.
    """
    libraries = _libraries(stub_of(order.python), mapped)
    facts = processors.rules(order.cpu, order.facts, modules)
    opened = [file_times(path) for path in open_files if Path(path).is_file()]
    if not order.is_checked:
        return MadeOf(facts, libraries, tuple(opened))
    searched = [SearchFolder(path, names) for path, names in folders.items()]
    beside = (path for folder in searched for path in (*folder.path_files(), *folder.inits()))
    every = {path: (path, *times) for path, *times in (*files, *opened, *map(file_times, beside))}
    return MadeOf(
        facts,
        libraries,
        tuple(sorted(every.values())),  # type: ignore[arg-type]
        tuple(sorted((_searched(folder) for folder in searched), key=lambda one: one.path)),
    )


def _searched(folder: SearchFolder) -> Searched:
    times = times_of(folder.path)
    return Searched(
        folder.path,
        times[0] if times != MISSING else 0,
        tuple(sorted(folder.names)),
        tuple(sorted(folder.found())),
    )


def _libraries(stub: Path, mapped: Iterable[str]) -> dict[str, BuildId | int]:
    ids = {path: _id_of(path) for path in mapped}
    sums = host.sums(stub, [path for path, found in ids.items() if found is None])
    return {path: found if found is not None else sums[path] for path, found in ids.items()}


def _id_of(path: str) -> BuildId | None:
    with (
        Path(path).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return build_id(content)  # type: ignore[arg-type]
