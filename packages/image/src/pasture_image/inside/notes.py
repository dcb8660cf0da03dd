"""What programs out of an image get as it was when its modules were loaded, in words."""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """One thing that a program finds otherwise than under `python`.

    Attributes:
        code: which, a key of `SENTENCES`.
        subject: the module, or the file, that it is about.
    """

    code: str
    subject: str

    @property
    def sentence(self) -> str:
        """For people."""
        return SENTENCES[self.code].format(self.subject)


SENTENCES = {
    "variables": "{} reads all variables, not some by name: programs must have exactly those of "
    "--env, or python runs them",
    "asked": "code in C asked the kernel for variables: python runs programs that have one of {} "
    "that its library names",
    "arguments": "{} reads the program's arguments or file while loading",
    "folder": "{} asks for the working directory, or keeps the search path",
    "network": "{} asks the network while loading",
    "filesystem": "{} asks for a file system's state while loading",
    "memory": "{} asks how much memory there is while loading",
    "kernel": "{} was read while modules were loaded",
    "process": "{} asks for its process's state, key or streams while loading",
    "made": "{} is made or changed by each load",
    "terminal": "modules asked while loading whether {} is a terminal: python runs programs where "
    "it is one",
    "output": "{} prints while it is loaded",
    "state": "loading modules changes {}",
    "host": "{} holds the host's name: python runs programs on another host",
}

REFUSED = frozenset((
    *("arguments", "folder", "network", "filesystem", "memory", "kernel", "process", "output",
      "state", "made"),
))  # fmt: skip
"""Of `SENTENCES`: what no start can compare. No image is made, unless it is allowed by this name:
then programs get what it was for the build."""
