"""Where a user's zygotes are found: the socket, and the log beside it.

src/stub/request.c looks in the same place. The folder belongs to the user alone. Sockets without
a place in a folder are not used: any user could take the name.
"""

from __future__ import annotations

import os
from pathlib import Path

from pasture.errors import UsageError, ZygoteFailed
from pasture.trust import private_files

BARE = "bare"
"""How the zygote without modules is shown."""

LONGEST_PATH = 107
"""Bytes of the path of a socket (unix(7))."""


def folder() -> Path:
    """The folder, whether it is there or not."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime) / "pasture"
    return Path(f"/tmp/pasture-{os.geteuid()}")


def socket_path() -> Path:
    """The socket.

    Raises:
        ZygoteFailed: its path is longer than the kernel takes.
    """
    path = folder() / "zygote"
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise ZygoteFailed(
            f"the path of the socket is too long: {path}", hint="set XDG_RUNTIME_DIR to a short one"
        )
    return path


def log_path() -> Path:
    """The log of the server and of what modules print while they are loaded."""
    return folder() / "zygote.log"


def make_folder() -> Path:
    """Make the folder, or see that it is this user's alone.

    Raises:
        ZygoteFailed: it cannot be made, or others may look into it.
    """
    path = folder()
    try:
        private_files.make_folder(path)
        status = path.lstat()
    except OSError as error:
        raise ZygoteFailed(
            f"there is no folder for the socket: {error}",
            hint="set XDG_RUNTIME_DIR to a folder of your own",
        ) from None
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ZygoteFailed(
            f"others may look into {path}", hint=f"chmod 700 {path}, if it is your own"
        )
    return path


def python_of(executable: str) -> str:
    """The interpreter that `pasture-python` beside an executable stands for.

    src/stub/interpreter.c finds it in the same way.
    """
    folder_of_it = Path(executable).parent.resolve()
    found = (folder_of_it / name for name in ("python", "python3"))
    return str(next((path for path in found if path.exists()), Path(executable)))


def require_name(name: object) -> str:
    """The name of a zygote, if it can have that.

    Raises:
        UsageError: it cannot.
    """
    if not isinstance(name, str) or name in ("", BARE) or not name.isprintable() or len(name) > 100:
        raise UsageError(f"a zygote cannot be called {name!r:.120}", hint="use another name")
    return name
