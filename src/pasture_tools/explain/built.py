"""Modules that a worker imported for itself, with the memory of each: lines for a file of `--auto`.

Found in the worker's private memory: module objects that the parent does not have there, and the
bytes of code by the file that it is of. The module of its functions, names and classes cannot be
read from outside: their memory is estimated from the bytes of code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pasture.learning.file import is_module
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture.scoreboard import reader
from pasture_tools.explain import allocator, sources
from pasture_tools.explain.allocator import HEADER_BYTES
from pasture_tools.explain.chunks import read_chunks
from pasture_tools.explain.difference import private_pages
from pasture_tools.explain.distinct import floor_to, of_ascending
from pasture_tools.explain.objects import Objects
from pasture_tools.explain.recognition import gather, recognise
from pasture_tools.proc.address_space import AddressSpace, Array

MAX_LINES = 10
_CODE_TO_ALL = 5.0
"""Memory that importing pandas, numpy or requests takes, by the bytes of its code objects."""
_MAX_MODULES = 10_000
_MAX_FILES = 20_000
_CHUNK_HEADER_BYTES = 16


@dataclass(frozen=True, slots=True)
class Built:
    """A module that a worker imported and its parent did not.

    Attributes:
        module: name; the package where all of a package is new.
        bytes: of it and all below it, estimated.
        largest: it, or the module below it that has most code: its import brings the most.
    """

    module: str
    bytes: int
    largest: str = ""

    @property
    def entry(self) -> str:
        """The line for a file of `--auto`."""
        return f"module {self.module}"


def built_alone(master_pid: int) -> list[Built]:
    """The modules that only the worker with most private memory imported, the largest first.

    Raises:
        ProcessEnded: the last worker has ended.
        NoPrivilege: the kernel does not let this user look.
    """
    worker_pid = sources.largest_worker(master_pid)
    with (
        AddressSpace(worker_pid) as worker,
        AddressSpace(reader.forked_by(worker_pid, master_pid)) as parent,
    ):
        fields = sources.find_sources(parent, None).fields
        if fields is None:
            return []
        objects = Objects(worker, fields)
        starts, sizes = _new_blocks(parent, worker)
        found = recognise(objects, starts)
        places = starts + found.prefixes.astype(np.uint64)
        [before] = gather(parent, places, [fields["object"]["ob_type"]])
        is_new = (found.types != 0) & (before != found.types)
        modules = _of_type(objects, found.types, is_new, "module")
        codes = _of_type(objects, found.types, is_new, "code")
        files = _code_by_file(objects, places[codes], sizes[codes])
        return ranked(_modules(objects, places[modules]), files)


def ranked(modules: Mapping[str, str], code_bytes: Mapping[str, int]) -> list[Built]:
    """Modules by the outermost one that is new, the largest first.

    Args:
        modules: file by name, "" without one.
        code_bytes: of code by file.
    """
    sizes: dict[str, int] = {}
    largest: dict[str, tuple[int, str]] = {}
    for name, file in modules.items():
        outermost = name
        while (above := outermost.rpartition(".")[0]) in modules:
            outermost = above
        size = code_bytes.get(file, 0)
        sizes[outermost] = sizes.get(outermost, 0) + size
        largest[outermost] = max(largest.get(outermost, (0, "")), (size, name))
    found = [
        Built(name, int(_CODE_TO_ALL * size), largest[name][1])
        for name, size in sizes.items()
        if size
    ]
    return sorted(found, key=lambda one: (-one.bytes, one.module))[:MAX_LINES]


def _new_blocks(parent: AddressSpace, worker: AddressSpace) -> tuple[Array, Array]:
    """Where blocks in use begin in the worker's private pages, ascending, and their sizes."""
    pages = private_pages(parent, worker)
    private = np.union1d(pages.new, pages.compared)
    chunks = read_chunks(worker)
    inside = chunks.in_use & np.isin(floor_to(OS_PAGE_BYTES, chunks.starts), private)
    in_chunks = chunks.starts[inside] + np.uint64(_CHUNK_HEADER_BYTES)
    sizes = (chunks.ends - chunks.starts)[inside].astype(np.int64)
    heaps = chunks.index(private) >= 0
    pools = allocator.read_pools(worker, allocator.pool_bases(private[~heaps]))
    rows, blocks = np.nonzero(~pools.free & pools.valid[:, None])
    in_pools = pools.addresses[rows] + (HEADER_BYTES + blocks * pools.block_bytes[rows]).astype(
        np.uint64
    )
    held = np.isin(floor_to(OS_PAGE_BYTES, in_pools), private)
    starts = np.concatenate((in_chunks, in_pools[held]))
    order = np.argsort(starts)
    return starts[order], np.concatenate((sizes, pools.block_bytes[rows][held]))[order]


def _of_type(objects: Objects, types: Array, is_new: Array, name: str) -> Array:
    wanted = [
        address
        for address in of_ascending(np.sort(types[is_new])).tolist()
        if (info := objects.type_at(address)) is not None and info.name == name
    ]
    return np.flatnonzero(is_new & np.isin(types, np.array(wanted, dtype=np.uint64)))


def _modules(objects: Objects, places: Array) -> dict[str, str]:
    """Files of module objects by their names."""
    at = objects.fields["module"]["md_dict"]
    found: dict[str, str] = {}
    for place in places[:_MAX_MODULES].tolist():
        items = objects.space.word(place + at)
        name = objects.text(objects.dict_get(items, "__name__"))
        if name and is_module(name):
            found[name] = objects.text(objects.dict_get(items, "__file__")) or ""
    return found


def _code_by_file(objects: Objects, places: Array, sizes: Array) -> dict[str, int]:
    [names] = gather(objects.space, places, [objects.fields["code"]["co_filename"]])
    known: dict[int, str] = {}
    found: dict[str, int] = {}
    for name, size in zip(names.tolist(), sizes.tolist(), strict=True):
        if name not in known and len(known) < _MAX_FILES:
            known[name] = objects.text(name) or ""
        file = known.get(name, "")
        found[file] = found.get(file, 0) + size
    return found
