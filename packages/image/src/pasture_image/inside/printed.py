"""What modules print while they are loaded: a program that imports one of them prints it then.

With `-m` that module runs, and what it prints itself is not known apart: that is for the
interpreter. What a second load prints differently is for no program. Owns taking what is printed,
and printing it again, at the first import of a preloaded module. Not seen: an import of another
one, which was loaded for this one or before it. Functions of `os` may be a module's by the end.
"""

from __future__ import annotations

import posix
import sys
from importlib.machinery import ModuleSpec
from typing import Any, NamedTuple

from pasture_image.inside import memory, renewed, streams

_STREAMS = {1: "stdout", 2: "stderr"}


class Printed(NamedTuple):
    """What was printed to a stream while a module was loaded."""

    module: str
    stream: str
    text: str


found: list[Printed] = []
"""In their order."""
recorder: Any = None
"""What has a method `take`."""


class Recorder:
    """Takes what is printed inside a `with` block, and passes it on at its end."""

    def __init__(self) -> None:
        """Open what it needs. Before modules open files."""
        self._files = [memory.create(f"pasture-{stream}") for stream in _STREAMS.values()]
        self._plain = [posix.dup(number) for number in _STREAMS]
        self._taken = dict.fromkeys(_STREAMS, 0)

    def __enter__(self) -> None:
        global recorder
        streams.flush()
        for number, file in enumerate(self._files, 1):
            posix.dup2(file, number)
        recorder = self

    def __exit__(self, *_: object) -> None:
        global recorder
        recorder = None
        streams.flush()
        for number, (file, plain) in enumerate(zip(self._files, self._plain, strict=True), 1):
            posix.dup2(plain, number)
            posix.close(plain)
            data = since(file, 0)
            while data:
                data = data[posix.write(number, data) :]
            posix.close(file)

    def take(self, module: str) -> None:
        """Note what was printed since the last call."""
        streams.flush()
        for number, file in enumerate(self._files, 1):
            data = since(file, self._taken[number])
            note(module, number, data)
            self._taken[number] += len(data)


def since(file: int, offset: int) -> bytes:
    """What has been written to a file from an offset on."""
    return posix.pread(file, posix.fstat(file).st_size - offset, offset)


def note(module: str, number: int, data: bytes) -> None:
    """What a module has printed to a descriptor."""
    if data:
        found.append(Printed(module, _STREAMS[number], data.decode("utf-8", "surrogateescape")))


def take(module: str) -> None:
    """All that was printed by now is one module's."""
    if recorder is not None:
        recorder.take(module)


def keep(of_second_load: object) -> list[str]:
    """Keep what both loads have printed; else nothing. Returns modules that print otherwise."""
    folders = [one.value for one in renewed.variables.values()]
    is_same = [list(one) for one in found] == of_second_load
    is_plain = all(one.text.encode(errors="ignore").decode() == one.text for one in found)
    has_folder = any(folder in one.text for one in found for folder in folders)
    modules = sorted({one.module for one in found})
    if is_same and is_plain and not has_folder:
        return []
    found.clear()
    return modules


def begin_program(module: str | None) -> None:
    """Have each module print when the program imports it.

    Args:
        module: that `-m` names.

    Raises:
        RuntimeError: the interpreter has to run it.
    """
    for name in {one.module for one in found}:
        if module in (name, name.removesuffix(".__main__")):
            raise RuntimeError(f"{name} prints while it is loaded")
        for one in (name, *_above(name)):
            spec = getattr(sys.modules.get(one), "__spec__", None)
            if type(spec) is ModuleSpec:
                spec.__class__ = _Spec


def _above(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _print(name: str) -> None:
    mine = [one for one in found if one.module == name]
    found[:] = [one for one in found if one.module != name]
    for one in mine:
        stream = getattr(sys, one.stream)
        if stream is not None:
            stream.write(one.text)


class _Spec(ModuleSpec):
    """Of a module that the program has not imported yet: each import asks for `_initializing`."""

    @property
    def _initializing(self) -> bool:
        self.__class__ = ModuleSpec  # type: ignore[assignment]
        for name in sorted({one.module for one in found}):
            if name == self.name or name.startswith(f"{self.name}."):
                _print(name)
        return False

    @_initializing.setter
    def _initializing(self, _value: Any) -> None:
        """A reload sets it."""
