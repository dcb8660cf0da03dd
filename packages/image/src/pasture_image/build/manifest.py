"""What `pasture-python` has to know of an image, as bytes: src/stub/manifest.h reads them.

Owns the layout. All numbers are 64 bits wide, little-endian; text is UTF-8 and ends with a zero
byte; the offset of a table counts from the first byte of all.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pasture_image.build.beside import Name
from pasture_image.build.frozen import FACTS, LAYOUT, Opened
from pasture_image.build.regions import ANONYMOUS, OWN, Image
from pasture_image.inside.start_variables import BEGINNINGS, UNCOUNTED, UNCOUNTED_BEGINNINGS

MAGIC = 0x4854464D475A5350
"""`PSZGMFTH`: the last character is the version of the layout."""

_MAX_KERNELS = 6
HEAD_FIELDS = 3 + len(FACTS) + len(LAYOUT) + 5 + 1 + 2 * _MAX_KERNELS + 8 + 3 + 4 + 8
_CHECKSUM_AT = 16
_IMAGE, _FILE = range(2)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a request must be like.

    Attributes:
        python: path of the interpreter that would run otherwise.
        options: of the interpreter, as given to it.
        variables: values that variables must have; None: must not be set.
        beginnings: of variables; no other one that begins so, in any case, may be set.
        contained: no other one that contains one of these, in any case, may be set.
        names: in whose place the program's folder must have no module of its own.
        all_variables: whether that holds for each variable, but for those that count for nothing.
    """

    python: str
    options: tuple[str, ...] = ()
    variables: Mapping[str, str | None] = field(default_factory=dict)
    beginnings: tuple[str, ...] = BEGINNINGS
    contained: tuple[str, ...] = ()
    all_variables: bool = False
    names: Sequence[Name] = ()

    def rules(self) -> list[str]:
        """The variables, as the stub compares them."""
        wanted = sorted(self.variables.items())
        values = (f"={name}={v}" if v is not None else f"-{name}" for name, v in wanted)
        everything: tuple[tuple[str, ...], tuple[str, ...]] = (("",), ())
        some = (self.beginnings, self.contained)
        begins, contained = everything if self.all_variables else some
        return [
            *values,
            *(f"^{begin}" for begin in begins),
            *(f"*{text}" for text in contained),
            *(f"!{name}" for name in UNCOUNTED),
            *(f"~{begin}" for begin in UNCOUNTED_BEGINNINGS),
        ]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of which more counts than that it is there; or a file, in which nothing lies.

    Attributes:
        inode, changed_ns: as of `File`. The rest is compared where one differs.
        names: of modules that were looked for, as `search.entries` takes them.
        found: entries that count of these.
        missing: paths below it at which there must be nothing.
        listed: a sum of all names in it (src/stub/content.c); None if they do not count.
    """

    path: str
    inode: int = 0
    changed_ns: int = 0
    names: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    listed: int | None = None


class File(NamedTuple):
    """A file that was looked at.

    Attributes:
        inode: of the file, when the sum was made.
        changed_ns: time of the last change of anything in it, by the kernel (`st_ctime_ns`). With
            both as they were the sum need not be made again; 0 where another change could have
            had the same time.
        mode: its permissions.
        sum: a checksum of it; None if this user may not read it.
    """

    path: str
    size: int
    inode: int
    changed_ns: int
    mode: int
    sum: int | None


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What an image was made of, as it is compared at each start (`made_of`).

    Attributes:
        facts: of the machine (`host`).
        libraries: the files that are mapped, by path.
        questions: the answer to each by its number and argument, which may be a path
            (src/stub/question.c).
    """

    facts: tuple[int, ...] = ()
    libraries: Mapping[str, File] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    folders: tuple[Folder, ...] = ()
    questions: Mapping[tuple[int, int | str], int] = field(default_factory=dict)


class _Tables:
    """Bytes that are appended behind a head of known length."""

    def __init__(self, head_bytes: int) -> None:
        self.data = bytearray(head_bytes)

    def add(self, data: bytes) -> int:
        """Append, aligned to 8 bytes; returns the offset."""
        self.data += bytes(-len(self.data) % 8)
        offset = len(self.data)
        self.data += data
        return offset

    def text(self, text: str) -> int:
        return self.add(os.fsencode(text) + b"\0")


def write_manifest(
    image: Image,
    facts: Mapping[str, int],
    auxiliary_vector: bytes,
    needs: Needs,
    open_files: Sequence[Opened],
    image_bytes: int,
    made_of: MadeOf,
) -> bytes:
    """All of it, as bytes.

    Args:
        image_bytes: up to the end of its pages.

    Raises:
        OSError: the kernel maps more into a process than is known.
    """
    tables = _Tables(8 * HEAD_FIELDS)
    sources = tables.add(_sources(image.sources, image_bytes, made_of, tables))
    regions = tables.add(b"".join(struct.pack("<3Q4I", *region) for region in image.regions))
    files = tables.add(_open_files(open_files, tables))
    auxiliary = tables.add(auxiliary_vector)
    rules = tables.add(_texts(needs.rules()))
    python = tables.text(needs.python)
    options = tables.add(_texts(needs.options))
    folder_rows, name_rows = _names(needs.names, tables)
    folders, names = tables.add(folder_rows), tables.add(name_rows)
    of_files = [(len(rows), tables.add(b"".join(rows))) for rows in _made_of(made_of, tables)]
    kernels = [number for m in image.kernels for number in (m.start, m.length)]
    if len(kernels) > 2 * _MAX_KERNELS:
        raise OSError("the kernel maps more into a process than is known")
    head = (
        *(MAGIC, 0, 0),
        *(facts[name] for name in (*FACTS, *LAYOUT)),
        *image.stack,
        len(image.kernels),
        *kernels,
        *[0] * (2 * _MAX_KERNELS - len(kernels)),
        *(len(image.sources), sources, len(image.regions), regions),
        *(len(open_files), files),
        *(len(auxiliary_vector), auxiliary),
        *(rules, python, options),
        *(len(folder_rows) // 8, folders, len(needs.names), names),
        *(number for table in of_files for number in table),
    )
    struct.pack_into(f"<{HEAD_FIELDS}Q", tables.data, 0, *head)
    tables.add(b"")
    struct.pack_into("<Q", tables.data, 8, len(tables.data))
    struct.pack_into("<Q", tables.data, _CHECKSUM_AT, checksum(tables.data))
    return bytes(tables.data)


def checksum(data: bytes | bytearray) -> int:
    """As src/stub/manifest.c, manifest_checksum."""
    return content_sum(bytes(data[:_CHECKSUM_AT]) + bytes(8) + data[_CHECKSUM_AT + 8 :])


def content_sum(data: bytes) -> int:
    """As src/stub/manifest.c, manifest_sum: a checksum of any bytes, all of them."""
    found, padded = len(data), data + bytes(-len(data) % 8)
    for word in struct.unpack(f"<{len(padded) // 8}Q", padded):
        found = (found ^ word) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        found ^= found >> 32
    return found


def _texts(texts: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(text) + b"\0" for text in texts) + b"\0"


def _names(names: Iterable[Name], tables: _Tables) -> tuple[bytes, bytes]:
    """Rows of folders, and rows of names that refer to them."""
    folders: dict[str, int] = {}
    rows = bytearray()
    for name in names:
        place = tables.text(name.text)
        index = folders.setdefault(name.folder, len(folders)) if name.folder else ANONYMOUS
        rows += struct.pack("<Q2I", place, index, name.is_open)
    return b"".join(struct.pack("<Q", tables.text(folder)) for folder in folders), bytes(rows)


def _sources(sources: Sequence[str], image_bytes: int, made_of: MadeOf, tables: _Tables) -> bytes:
    rows = bytearray()
    for source in sources:
        if source == OWN:
            row = (_IMAGE, image_bytes, 0, 0, 0, 0)
        else:
            _, size, inode, changed_ns, _, known = made_of.libraries[source]
            row = (_FILE, size, tables.text(source), known or 0, inode, changed_ns)
        rows += struct.pack("<6Q", *row)
    return bytes(rows)


def _open_files(files: Iterable[Opened], tables: _Tables) -> bytes:
    return b"".join(
        struct.pack("<4Q", one.number, one.flags, one.offset, tables.text(one.path))
        for one in files
    )


def _made_of(made_of: MadeOf, tables: _Tables) -> tuple[list[bytes], ...]:
    """Rows of facts, of files, of folders and of questions."""
    text = tables.text
    dated = (
        (text(f.path), f.size, f.mode, f.inode, f.changed_ns, f.sum is not None, f.sum or 0)
        for f in made_of.files
    )
    folders = (
        (
            *(text(f.path), f.inode, f.changed_ns),
            *(tables.add(_texts(texts)) for texts in (f.names, f.found, f.missing)),
            *(f.listed is not None, f.listed or 0),
        )
        for f in made_of.folders
    )
    return (
        [struct.pack("<Q", fact) for fact in made_of.facts],
        [struct.pack("<7Q", *row) for row in dated],
        [struct.pack("<8Q", *row) for row in folders],
        [
            struct.pack("<3Q", number, text(about) if isinstance(about, str) else about, answer)
            for (number, about), answer in made_of.questions.items()
        ],
    )
