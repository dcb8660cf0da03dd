"""What `pasture-python` has to know of an image, as bytes: src/stub/manifest.h reads them.

Owns the layout. All numbers are 64 bits wide, little-endian; text is UTF-8 and ends with a zero
byte; the offset of a table counts from the first byte of all.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pasture_zygote.beside import Name
from pasture_zygote.frozen import FACTS
from pasture_zygote.image import ANONYMOUS, Image

MAGIC = 0x3254464D475A5350
"""`PSZGMFT2`: the last digit is the version of the layout."""

LAYOUT = ("start_code", "end_code", "start_data", "end_data", "start_brk", "start_stack")
_MAX_KERNELS = 6
_CHECKSUM_AT = 16

ALWAYS_READ = (
    *("PYTHON", "LC_", "LD_", "MALLOC_", "GLIBC_TUNABLES", "GOMP_", "OMP_", "OPENBLAS_", "GOTO_"),
    *("MKL_", "KMP_", "BLIS_", "NUMEXPR_", "COV_CORE_", "COVERAGE_PROCESS_", "LOCPATH"),
    *("OPENSSL_", "NPY_", "MIMALLOC_", "TCMALLOC_", "_RJEM_MALLOC_"),
)
"""Beginnings of variables that the interpreter, the C library or libraries in C read at start."""

READ_BY: Mapping[str, tuple[str, ...]] = {
    "grpc": ("GRPC_",),
    "jax": ("JAX_", "XLA_", "CUDA_"),
    "polars": ("POLARS_", "RAYON_"),
    "pyarrow": ("ARROW_",),
    "ray": ("RAY_", "GRPC_"),
    "tensorflow": ("TF_", "XLA_", "CUDA_"),
    "torch": ("TORCH_", "PYTORCH_", "CUDA_", "NCCL_"),
}
"""Beginnings of variables that the code in C of a module reads while it is loaded, unseen by
Python. (ray 2.60 keeps the job's id of then: RayConfig in _raylet.so.)"""

ALWAYS_READ_EXACTLY = (
    *("LANG", "LANGUAGE", "HOME", "SETUPTOOLS_USE_DISTUTILS", "PASTURE", "PASTURE_PRELOAD"),
)
"""The same, by their whole names: HOME is where packages of the user are, start files of packages
read the last ones."""

READ_LATER = (
    *("PYTHONBREAKPOINT", "PYTHONASYNCIODEBUG", "PYTHON_COLORS", "PYTHON_HISTORY"),
    *("PYTHON_BASIC_REPL", "PYTHONSTARTUP", "LD_BIND_NOW"),
)
"""Variables that begin so and are read when they are used."""

UNCOUNTED = frozenset((
    *("_", "SHLVL", "PWD", "OLDPWD"),  # of a shell, for each program
    *("SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "XDG_SESSION_ID"),  # of a login
    *("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID"),  # of systemd, for each start
    *("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"),
    *("PASTURE_ZYGOTE", "PASTURE_ZYGOTE_VERBOSE", "PASTURE_PYTHON", "JPY_PARENT_PID"),
))  # fmt: skip
"""Variables that differ from start to start, whatever a program is to do. A module that goes
through all variables depends on all but these, and does not see them. One that asks for one of them
by its name depends on it."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is open in the image under a certain number.

    Attributes:
        flags: of open(2).
        offset: where in the file it stands.
    """

    number: int
    path: str
    flags: int
    offset: int


@dataclass(frozen=True, slots=True)
class Needs:
    """What a request must be like.

    Attributes:
        python: path of the interpreter that would run otherwise.
        options: of the interpreter, as given to it.
        variables: values that variables must have; None: must not be set.
        beginnings: of variables; no other one that begins so may be set.
        names: in whose place the program's folder must have no module of its own.
        all_variables: whether that holds for each variable, but for those that count for nothing.
    """

    python: str
    options: tuple[str, ...] = ()
    variables: Mapping[str, str | None] = field(default_factory=dict)
    beginnings: tuple[str, ...] = ALWAYS_READ
    all_variables: bool = False
    names: Sequence[Name] = ()

    def rules(self) -> list[str]:
        """The variables, as the stub compares them."""
        return [
            *(f"={name}={v}" if v is not None else f"-{name}" for name, v in self._sorted()),
            *(f"^{begin}" for begin in (("",) if self.all_variables else self.beginnings)),
            *(f"!{name}" for name in (UNCOUNTED if self.all_variables else READ_LATER)),
        ]

    def _sorted(self) -> list[tuple[str, str | None]]:
        return sorted(self.variables.items())


def beginnings(modules: Iterable[str]) -> tuple[str, ...]:
    """How variables begin that code in C reads at the start, or while these modules are loaded."""
    loaded = frozenset(modules)
    of_modules = {begin for module, all_of_it in READ_BY.items() if module in loaded
                  for begin in all_of_it}  # fmt: skip
    return (*ALWAYS_READ, *sorted(of_modules))


def always_read(
    environ: Mapping[str, str], beginnings: tuple[str, ...] = ALWAYS_READ
) -> dict[str, str | None]:
    """Those of the variables that matter to every start, with their values."""
    found: dict[str, str | None] = {
        name: value
        for name, value in environ.items()
        if name.startswith(beginnings) and name not in READ_LATER
    }
    return found | {name: environ.get(name) for name in ALWAYS_READ_EXACTLY}


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
    layout: Mapping[str, int],
    auxiliary_vector: bytes,
    needs: Needs,
    open_files: Sequence[OpenFile] = (),
    memory: Sequence[int] = (),
) -> bytes:
    """All of it, as bytes.

    Args:
        memory: descriptors of the files in memory, the root's first; each is complete.

    Raises:
        OSError: a file that is mapped is there no more.
    """
    head_fields = 3 + len(FACTS) + len(LAYOUT) + 5 + 1 + 2 * _MAX_KERNELS + 8 + 3 + 4
    tables = _Tables(8 * head_fields)
    sources = tables.add(_sources(image.sources, memory, tables))
    regions = tables.add(_regions(image))
    files = tables.add(_open_files(open_files, tables))
    auxiliary = tables.add(auxiliary_vector)
    rules = tables.add(_texts(needs.rules()))
    python = tables.text(needs.python)
    options = tables.add(_texts(needs.options))
    folder_rows, name_rows = _names(needs.names, tables)
    folders, names = tables.add(folder_rows), tables.add(name_rows)
    stack = image.stack
    kernels = [number for m in image.kernels for number in (m.start, m.length)]
    if len(kernels) > 2 * _MAX_KERNELS:
        raise OSError("the kernel maps more into a process than is known")
    head = (
        *(MAGIC, 0, 0),
        *(facts[name] for name in FACTS),
        *(layout[name] for name in LAYOUT),
        *(stack.end, stack.limit_bytes, stack.length, stack.source, stack.offset),
        len(image.kernels),
        *kernels,
        *[0] * (2 * _MAX_KERNELS - len(kernels)),
        *(len(image.sources), sources, len(image.regions), regions),
        *(len(open_files), files),
        *(len(auxiliary_vector), auxiliary),
        *(rules, python, options),
        *(len(folder_rows) // 16, folders, len(needs.names), names),
    )
    struct.pack_into(f"<{head_fields}Q", tables.data, 0, *head)
    tables.add(b"")
    struct.pack_into("<Q", tables.data, 8, len(tables.data))
    struct.pack_into("<Q", tables.data, _CHECKSUM_AT, checksum(tables.data))
    return bytes(tables.data)


def checksum(data: bytes | bytearray) -> int:
    """As src/stub/manifest.c, manifest_checksum; the length is a multiple of 8."""
    words = list(struct.unpack(f"<{len(data) // 8}Q", data))
    words[_CHECKSUM_AT // 8] = 0
    found = len(data)
    for word in words:
        found = (found ^ word) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        found ^= found >> 32
    return found


def _texts(texts: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(text) + b"\0" for text in texts) + b"\0"


def _names(names: Iterable[Name], tables: _Tables) -> tuple[bytes, bytes]:
    """Rows of folders, and rows of names that refer to them."""
    folders: dict[tuple[int, int], int] = {}
    rows = bytearray()
    for name in names:
        place = tables.text(name.text)
        identity = _identity(name.folder)
        index = ANONYMOUS if identity is None else folders.setdefault(identity, len(folders))
        rows += struct.pack("<Q2I", place, index, name.is_open)
    return b"".join(struct.pack("<2Q", *folder) for folder in folders), bytes(rows)


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        status = Path(folder).stat() if folder else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status is not None else None


def _sources(sources: Sequence[str | int], memory: Sequence[int], tables: _Tables) -> bytes:
    rows = bytearray()
    for source in sources:
        if isinstance(source, int):
            status = os.fstat(memory[source])
            rows += struct.pack("<6Q", 1, source, status.st_ino, status.st_size, 0, 0)
            continue
        status = Path(source).stat()
        place = tables.text(source)
        rows += struct.pack(
            *("<6Q", 0, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, place)
        )
    return bytes(rows)


def _open_files(files: Iterable[OpenFile], tables: _Tables) -> bytes:
    rows = bytearray()
    for file in files:
        status = Path(file.path).stat()
        place = tables.text(file.path)
        rows += struct.pack(
            *("<6Q", file.number, file.flags, file.offset, place, status.st_dev, status.st_ino)
        )
    return bytes(rows)


def _regions(image: Image) -> bytes:
    return b"".join(
        struct.pack(
            *("<3Q4I", r.start, r.length, r.offset, r.source, r.protection, r.flags, r.advice)
        )
        for r in image.regions
    )
