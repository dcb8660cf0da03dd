"""Records which modules a program imports, for `pasture image fit`: `PASTURE_IMPORTS=FILE`.

`pasture-python` asks for it, once for each program; a start file or `begin` starts it. The program
has one finder more, which finds nothing, and writes one line when it ends. The line has versions
and names of modules alone: no argument, no variable, no path. Nothing that goes wrong here reaches
the program.
"""

from __future__ import annotations

import atexit
import os
import posix
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing would be loaded, too
    from collections.abc import Sequence

FILE = "PASTURE_IMPORTS"
REQUEST = "_PASTURE_REQUEST"
"""Set by `pasture-python` for this start alone: no child of the program has it."""

VERSION = "imports 1"
MAX_LINE_BYTES = 16 * 1024
MAX_FILE_BYTES = 16 << 20
"""The file takes no more lines then."""

_MAX_NAMES = 1000
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_STDLIB = f"{os.path.dirname(os.__file__)}/"  # noqa: PTH120 - runs at the start of a program
_FOLDERS = ("/site-packages/", "/dist-packages/")


def is_installed_file(path: str) -> bool:
    """Whether a module's file is the interpreter's or an installed package's."""
    return path.startswith(_STDLIB) or any(folder in path for folder in _FOLDERS)


def start(preloaded: Sequence[str] | None = None) -> None:
    """Record from now on, if this very program is to be recorded.

    Args:
        preloaded: modules that the image of this process was made with; None without an image.
    """
    pid, _, rest = os.environ.pop(REQUEST, "").partition(":")
    posix.environ.pop(os.fsencode(REQUEST), None)
    options, _, text = rest.partition(":")
    path = os.environ.get(FILE, "")
    if pid == str(os.getpid()) and path.startswith("/"):
        recorder = _Recorder(path, options, text, preloaded)
        sys.meta_path.insert(0, recorder)
        atexit.register(recorder.write)


class _Recorder:
    """A finder that finds nothing."""

    def __init__(self, path: str, options: str, text: str, preloaded: Sequence[str] | None) -> None:
        self._path = path
        self._options = options
        self._text = text
        self._preloaded = preloaded
        self._names: dict[str, None] = {}
        self._loading: list[str] = []
        self._pid = os.getpid()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note what is imported, unless an installed module imports it: that one stands for it."""
        loading = self._loading
        while loading and not _is_loading(loading[-1]):
            loading.pop()
        if not any(_is_installed(other) for other in loading):
            if len(self._names) < _MAX_NAMES:
                self._names[name] = None
        loading.append(name)

    def write(self) -> None:
        """Add the line."""
        if os.getpid() != self._pid:
            return
        try:  # contextlib would be loaded for this in each program
            line = self._line()
            if len(line) <= MAX_LINE_BYTES:
                append(self._path, line)
        except Exception:  # of the recording alone
            pass

    def _line(self) -> bytes:
        tops = set(self._text.split(","))
        of_image = [n for n in self._preloaded or () if n.partition(".")[0] in tops]
        names = dict.fromkeys((*of_image, *filter(_is_installed, self._names)))
        version = ".".join(map(str, sys.version_info[:3]))
        fields = (
            *(VERSION, version, f"{packages()}", self._options, self._text),
            *("python" if self._preloaded is None else "image", " ".join(names)),
        )
        return "\t".join(fields).encode() + b"\n"


def packages() -> int:
    """A number that another installation of packages changes."""
    found = 0
    for folder in sys.path:
        if is_installed_file(f"{folder}/") and not folder.endswith(".zip"):
            try:
                found ^= os.stat(folder).st_mtime_ns // 1000  # noqa: PTH116
            except OSError:
                continue
    return found


def append(path: str, line: bytes) -> None:
    """Add a line to a plain file that is this user's alone to write to; lines of two do not mix.

    Raises:
        OSError: it cannot be opened.
    """
    file = os.open(path, _FLAGS, 0o600)
    try:
        status = os.fstat(file)
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if is_own and not status.st_mode & 0o022 and status.st_nlink == 1:
            if status.st_size + len(line) <= MAX_FILE_BYTES:
                os.write(file, line)
    finally:
        os.close(file)


def _spec(name: str) -> object:
    return getattr(sys.modules.get(name), "__spec__", None)


def _is_loading(name: str) -> bool:
    return bool(getattr(_spec(name), "_initializing", False))


def _is_installed(name: str) -> bool:
    spec = _spec(name)
    origin = getattr(spec, "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    return isinstance(origin, str) and is_installed_file(origin)
