"""A worker's private OS pages against the same pages of its parent.

Owns which pages are compared and the reading of them, in batches of bounded memory. No process is
stopped: a page that changes while it is read is compared as it was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pasture.proc.maps import Mapping
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.proc.address_space import WORD_BYTES, AddressSpace, Array, read_os_pages

BATCH_OS_PAGES = (8 << 20) // OS_PAGE_BYTES


@dataclass(frozen=True, slots=True)
class PrivatePages:
    """The private pages of a worker; addresses are uint64, ascending."""

    compared: Array  # the parent has a page at the same address, or both map the same file
    new: Array  # the parent has no page there
    of_file: Array  # equal to their file, mapped by the worker alone

    @property
    def count(self) -> int:
        return len(self.compared) + len(self.new) + len(self.of_file)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some compared pages and the words that differ in them."""

    os_pages: Array  # addresses of the pages
    addresses: Array  # address of each word that differs
    rows: Array  # index into `os_pages` of each word that differs
    # before, after: all words of the pages in parent and worker, one row a page; None where they
    # were not read.
    before: Array | None = None
    after: Array | None = None


def private_pages(parent: AddressSpace, worker: AddressSpace) -> PrivatePages:
    """Find the worker's private pages and what the parent has in their places."""
    compared, new, of_file = [], [], []
    for mapping in worker.mappings:
        pages = read_os_pages(worker.pid, mapping)
        of_file.append(pages.addresses[pages.private & pages.of_file])
        wanted = pages.addresses[pages.private & ~pages.of_file]
        if not len(wanted):
            continue
        there = _in_parent(parent, mapping, wanted)
        compared.append(wanted[there])
        new.append(wanted[~there])
    return PrivatePages(compared=_joined(compared), new=_joined(new), of_file=_joined(of_file))


def _in_parent(parent: AddressSpace, mapping: Mapping, addresses: Array) -> Array:
    there = np.zeros(len(addresses), dtype=bool)
    for other in parent.mappings:
        if other.end <= mapping.start or other.start >= mapping.end:
            continue
        inside = (addresses >= np.uint64(other.start)) & (addresses < np.uint64(other.end))
        if not inside.any():
            continue
        if other.is_file and other.path == mapping.path:
            there |= inside  # not in the parent's memory yet: then as in the file
            continue
        there[inside] = parent.has_pages(other, addresses[inside])
    return there


def compare(parent: AddressSpace, worker: AddressSpace, os_pages: Array) -> Iterator[Batch]:
    """Compare pages word by word, in ascending batches."""
    for first in range(0, len(os_pages), BATCH_OS_PAGES):
        chosen = os_pages[first : first + BATCH_OS_PAGES]
        yield difference(chosen, parent.os_pages(chosen), worker.os_pages(chosen))


def difference(os_pages: Array, before: Array, after: Array) -> Batch:
    """Words that differ between two readings of the same pages (one row a page)."""
    places = np.flatnonzero(before.reshape(-1) != after.reshape(-1))
    rows, columns = np.divmod(places, OS_PAGE_BYTES // WORD_BYTES)
    addresses = os_pages[rows] + columns.astype(np.uint64) * np.uint64(WORD_BYTES)
    return Batch(os_pages, addresses, rows, before, after)


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)
