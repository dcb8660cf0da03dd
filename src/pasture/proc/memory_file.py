"""Nameless files in the kernel's memory, and their seals.

Offers memfd_create(2) also where Python was built for an old C library. Distrusts files of another
process: its user chooses its open files, and the reader may be root. So a file is opened only after
the kernel has reported that it is memory, and it is not mapped. A file without the expected seals,
or of a third user, is left alone.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ADD_SEALS, GET_SEALS = 1033, 1034
SEAL_SEAL, SEAL_SHRINK, SEAL_GROW, SEAL_WRITE = 1, 2, 4, 8

_PROC = Path("/proc")
_MAX_FILES = 65536
_MAX_CANDIDATES = 4
_MAX_SHOWN_BYTES = 1 << 20
_EFFECTIVE = 1  # index in the four user ids of a process

_CLOEXEC, _ALLOW_SEALING, _NOEXEC_SEAL = 1, 2, 8
_CALL_NUMBERS = {"x86_64": 319, "aarch64": 279}


def create(name: str, *, may_run: bool = True) -> int:
    """A new file without content, closed at an exec, that can be sealed. May raise OSError.

    `may_run=False` has the kernel refuse to run it as a program, from Linux 6.3 on.
    """
    if not may_run:
        with suppress(OSError):
            return _create(name, _CLOEXEC | _ALLOW_SEALING | _NOEXEC_SEAL)
    return _create(name, _CLOEXEC | _ALLOW_SEALING)


def _create(name: str, flags: int) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, flags)
    number = _CALL_NUMBERS.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    file = int(library.syscall(ctypes.c_long(number), name.encode(), ctypes.c_uint(flags)))
    if file < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return file


def require_room(size: int) -> None:
    """Raise OSError if `ulimit -f` is less than this many bytes: there SIGXFSZ ends the process."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY and size > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))


class Shown:
    """Text that this process publishes in an immutable file of this name.

    A child has its parent's. The file is closed by its number only if that is still this file.
    """

    SEALS = SEAL_WRITE | SEAL_SHRINK | SEAL_GROW | SEAL_SEAL

    def __init__(self, name: str) -> None:
        self.name = name
        self._latest: tuple[int, tuple[int, int]] | None = None

    def show(self, text: str) -> None:
        """Publish this text in place of the one before; without memory publish none."""
        self.hide()
        with suppress(OSError, MemoryError):
            content = text.encode("utf-8", "replace")
            require_room(len(content))
            file = create(self.name)
            try:
                with open(file, "wb", closefd=False) as stream:
                    stream.write(content)
                fcntl.fcntl(file, ADD_SEALS, self.SEALS)
                self._latest = file, _identity(file)
            finally:
                if self._latest is None:
                    os.close(file)

    def hide(self) -> None:
        """Withdraw the text."""
        before, self._latest = self._latest, None
        with suppress(OSError):
            if before is not None and _identity(before[0]) == before[1]:
                os.close(before[0])

    def read(self, pid: int, proc: Path = _PROC) -> Iterator[bytes]:
        """The text that a process publishes under this name."""
        for file in find(pid, self.name, self.SEALS, proc):
            yield os.pread(file, _MAX_SHOWN_BYTES, 0)


def _identity(file: int) -> tuple[int, int]:
    status = os.fstat(file)
    return status.st_dev, status.st_ino


def find(pid: int, name: str, seals: int, proc: Path = _PROC) -> Iterator[int]:
    """Descriptors, for reading, of a process's files of a name, each open for one iteration.

    Only files with these seals that belong to the process's user or root, four at most. Empty where
    the open files of the process may not be read.
    """
    folder = proc / str(pid)
    try:
        owner = int(status_of(folder, "Uid")[_EFFECTIVE])
        paths = list(itertools.islice((folder / "fd").iterdir(), _MAX_FILES))
    except (OSError, ValueError):
        return
    named = (path for path in paths if _has_name(path, name))
    for path in itertools.islice(named, _MAX_CANDIDATES):
        with suppress(OSError, ValueError), opened(path) as file:  # OSError: closed meanwhile
            status = os.fstat(file)
            if (
                stat.S_ISREG(status.st_mode)
                and status.st_uid in (owner, 0)
                and fcntl.fcntl(file, GET_SEALS) & seals == seals
            ):
                yield file


def status_of(folder: Path, name: str) -> list[str]:
    """The words of one line of a process's status; OSError without it."""
    for line in (folder / "status").read_text(errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return line.split()[1:]
    raise OSError(f"{folder}/status has no line {name}")


def _has_name(path: Path, name: str) -> bool:
    try:
        return str(path.readlink()).startswith(f"/memfd:{name} ")
    except OSError:
        return False  # closed meanwhile


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor for reading; the file is opened only if it lies in the kernel's memory.

    A descriptor with O_PATH does not touch the file, so that a user's FIFO, device or file system
    cannot block or notice. Exactly the files made by memfd_create lie on the kernel's own mount.
    Raises OSError for another file.
    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        mine = create("pasture-reader")
        try:
            if _mount_of(place) != _mount_of(mine):
                raise OSError(f"{path} is not memory")
        finally:
            os.close(mine)
        file = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(place)
    try:
        yield file
    finally:
        os.close(file)


def _mount_of(file: int) -> bytes:
    """The mount of an open file. Source: proc_pid_fdinfo(5)."""
    for line in Path(f"/proc/self/fdinfo/{file}").read_bytes().splitlines():
        if line.startswith(b"mnt_id:"):
            return line
    raise OSError("the kernel lists no mount")
