"""The causes for which an OS page is private, by name.

Codes are the positions in the list and appear in no document; names do.
"""

from __future__ import annotations

from enum import IntEnum


class Cause(IntEnum):
    """Why a word of a page differs from the parent's, or why a whole page is private."""

    REFERENCE_COUNT = 0
    GC_HEADER = 1
    POOL_HEADER = 2
    FREE_LIST = 3
    HOLE = 4
    FREE_MEMORY = 5
    FREED = 6
    CHUNK_HEADER = 7
    CODE_COUNTER = 8
    CODE_CACHE = 9
    DICT_KEYS = 10
    DICT_VALUES = 11
    LIST_STORAGE = 12
    SET_STORAGE = 13
    OBJECT_FIELD = 14
    TYPE_VERSION = 15
    WEAKREF_LIST = 16
    HASH = 17
    C_ALLOCATION = 18
    INTERPRETER_DATA = 19
    LIBRARY_DATA = 20
    STACK = 21
    UNKNOWN = 22
    NEW_MEMORY = 23
    RESTORED = 24
    FILE_PAGE = 25

    @property
    def label(self) -> str:
        """The name in tables and documents, as in "reference count"."""
        return _TEXTS[self][0]

    @property
    def meaning(self) -> str:
        """One sentence for a user who sees the name for the first time."""
        return _TEXTS[self][1]


_TEXTS: dict[Cause, tuple[str, str]] = {
    Cause.REFERENCE_COUNT: (
        "reference count",
        "an object was read: a reference to it was taken or dropped",
    ),
    Cause.GC_HEADER: (
        "GC header",
        "a collection, or an object entering or leaving a list of the collector",
    ),
    Cause.POOL_HEADER: ("pool header", "pymalloc took or freed a block of a shared pool"),
    Cause.FREE_LIST: ("free list", "links between free blocks, written by the allocator"),
    Cause.HOLE: ("hole reused", "a new object in a free block between shared ones"),
    Cause.FREE_MEMORY: (
        "free memory reused",
        "a new object in memory that the parent had freed entirely: dense, like new memory",
    ),
    Cause.FREED: ("block freed", "an object of the parent that the worker freed"),
    Cause.CHUNK_HEADER: ("chunk header", "malloc split, joined or freed a chunk"),
    Cause.CODE_COUNTER: ("code counter", "a counter of an adaptive instruction"),
    Cause.CODE_CACHE: ("inline cache", "an instruction specialized, or its inline cache"),
    Cause.DICT_KEYS: ("dict keys", "a key table: head, index or keys"),
    Cause.DICT_VALUES: ("dict values", "a value of a dictionary or an attribute of an instance"),
    Cause.LIST_STORAGE: ("list storage", "the items of a list"),
    Cause.SET_STORAGE: ("set storage", "the table of a set"),
    Cause.OBJECT_FIELD: ("object field", "a field of an object, by type and name"),
    Cause.TYPE_VERSION: ("type version", "a type's version tag or specialization cache"),
    Cause.WEAKREF_LIST: ("weak-reference list", "a weak reference came or went"),
    Cause.HASH: ("string hash", "the hash of a string, tuple or the like, kept at first use"),
    Cause.C_ALLOCATION: ("C allocation", "memory in use that is not a Python object"),
    Cause.INTERPRETER_DATA: ("interpreter data", "variables of the interpreter itself"),
    Cause.LIBRARY_DATA: ("library data", "variables of a shared library or extension module"),
    Cause.STACK: ("stack", "the stack of the main thread"),
    Cause.UNKNOWN: ("unknown", "changed, for a reason that was not found"),
    Cause.NEW_MEMORY: ("new memory", "the parent never had a page there"),
    Cause.RESTORED: ("written and restored", "private, and equal to the parent's page again"),
    Cause.FILE_PAGE: ("file page", "a page of a file that only this worker maps"),
}
