"""Every error that pasture raises on purpose, in one hierarchy.

Each class stands for one obstacle of a user and carries the command's exit code. Each instance has
a message and, as `hint`, the remedy. A user never sees a traceback for one of these.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import ClassVar

DOCS_URL = ""
"""Address of the documentation, without a final slash; "" shows no page in help and messages.
"""

ERROR, HINT = "error: ", "hint: "
"""Prefixes of a program's last lines on stderr after such an error."""


def see(page: str) -> str:
    """Words that name a page of the documentation, for the end of a sentence; "" without one."""
    return f" ({DOCS_URL}/docs/{page}.html)" if DOCS_URL else ""


def guess(word: str, known: Iterable[str]) -> str:
    """`did you mean X? `, the start of a hint; "" without a similar word."""
    import difflib  # imported now: few processes need it, and a seal would keep it

    near = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {near[0]}? " if near else ""


class PastureError(Exception):
    """Something the user can fix.

    Attributes:
        exit_code: status with which the command line ends.
        message: what happened, one sentence without a full stop.
        hint: what to do about it; may run over several lines; "" if there is nothing to add.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def refused(error: BaseException) -> PastureError | None:
    """Words for an error by a lack of resources; None for another cause."""
    import errno
    import os

    hints = {
        errno.EMFILE: "raise the limit of open files: ulimit -n",
        errno.ENFILE: "the whole system has reached its limit: end programs that keep files open",
        errno.ENOMEM: "end other programs, or raise the limit of this one",
        errno.EAGAIN: "raise the limit of processes: ulimit -u",
        errno.ENOSYS: "the kernel, or a filter of system calls, lacks one that pasture needs",
    }
    if isinstance(error, MemoryError):
        number: int | None = errno.ENOMEM
    elif isinstance(error, RuntimeError) and error.args == ("can't start new thread",):
        number = errno.EAGAIN
    else:
        number = error.errno if isinstance(error, OSError) else None
    if number is None or number not in hints:
        return None
    return PastureError(os.strerror(number).lower(), hint=hints[number])


class UsageError(PastureError):
    """An option, argument or file of the user's is wrong."""

    exit_code = 2


class UnsupportedInterpreter(PastureError):
    """The interpreter's objects are laid out in a way that pasture does not know."""

    exit_code = 3


class UnknownPolicy(PastureError):
    """No policy has this name."""

    exit_code = 4


class AppImportFailed(PastureError):
    """The application cannot be imported.

    Attributes:
        is_certain: no other process could import it: a module or a name is not there.
    """

    exit_code = 5

    def __init__(self, message: str, *, hint: str = "", is_certain: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_certain = is_certain


class AppDidNotAnswer(PastureError):
    """The application started but answers no request, or none any more."""

    exit_code = 6


class AnswersDiffer(PastureError):
    """The application answers differently under one policy than under another."""

    exit_code = 7


class PortTaken(PastureError):
    """Another process listens on the port."""

    exit_code = 8


class NoPrivilege(PastureError):
    """The kernel refuses a look into another process, or offers no such look."""

    exit_code = 9


class MissingExtra(PastureError):
    """The command needs packages of an optional extra."""

    exit_code = 10


class ServerFailed(PastureError):
    """The server does not start, does not stay up or does not stop."""

    exit_code = 11


class SealFailed(PastureError):
    """The heap could not be sealed, or not completely; the process still works."""

    exit_code = 12


class ProcessEnded(PastureError):
    """A process ended, or began to end, while it was read."""

    exit_code = 14


class ObstaclesFound(PastureError):
    """Something stands in the way of shared memory."""

    exit_code = 15


class NotMeasurable(PastureError):
    """This machine, or what is installed on it, does not allow a measurement."""

    exit_code = 16


class ProbeFailed(PastureError):
    """A process forked after the seal does not serve as its parent did."""

    exit_code = 18


class MemoryGrew(PastureError):
    """A trial takes more memory, or starts more slowly, than the baseline allows."""

    exit_code = 19


class ImageFailed(PastureError):
    """An image cannot be made, or no program starts out of it."""

    exit_code = 17
