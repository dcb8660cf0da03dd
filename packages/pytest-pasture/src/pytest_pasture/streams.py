"""Standard streams after a fork: those of the process above are neither read nor written any more.

Objects stay, and with them the handlers of `logging` that hold one: new files are laid under the
descriptors that pytest's capture has open.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from fcntl import F_GETFL, fcntl
from io import TextIOWrapper
from pathlib import Path
from stat import S_ISCHR, S_ISDIR, S_ISREG
from tempfile import TemporaryFile

import pytest
from _pytest.capture import CaptureManager, FDCaptureBase


class Standard:
    """The standard streams that a process was started with, wherever it has them open."""

    def __init__(self) -> None:
        self._files = [_file(descriptor) for descriptor in (0, 1, 2)]
        self._errors: list[int] = []

    def let_go(self) -> None:
        """Hold none of them open."""
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in _descriptors():
            file = _file(descriptor)
            if descriptor != null and file is not None and file in self._files:
                _replace(descriptor, null)
                if file == self._files[2]:
                    self._errors.append(descriptor)
        os.close(null)

    def take_stderr(self, descriptor: int) -> None:
        """Use this one in the place of stderr, and close it."""
        for held in self._errors:
            _replace(held, descriptor)
        os.close(descriptor)


class Made:
    """What a program has opened since, and could not share with the children of a later run."""

    def __init__(self) -> None:
        self._before = {one: _file(one) for one in _descriptors()}

    def more(self, config: pytest.Config) -> list[int]:
        """Descriptors of all but folders, devices, files to read, and pytest's own."""
        own = {one for capture in _captures(config) for one in _own(capture)}
        return [
            one
            for one in _descriptors()
            if one not in own and _file(one) not in (None, self._before.get(one)) and _is_used(one)
        ]


def inherited() -> list[int]:
    """Descriptors that this program was started with, besides the standard streams."""
    return [one for one in _descriptors() if one > 2 and _file(one) and os.get_inheritable(one)]


def detach(config: pytest.Config) -> None:
    """In the mold: read nothing, write to nothing but stderr, as xdist's workers do."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    for capture in _captures(config):
        if capture.targetfd in (0, 1):
            os.dup2(null, capture.targetfd_save, inheritable=False)
    os.close(null)
    renew(config)


def take(config: pytest.Config, descriptors: Sequence[int]) -> None:
    """Have these three for the standard streams, and close them."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        for capture in _captures(config):
            if capture.targetfd == number:
                os.dup2(descriptor, capture.targetfd_save, inheritable=False)
        os.close(descriptor)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    renew(config)


def renew(config: pytest.Config) -> None:
    """Give this process files of its own to capture output in."""
    for capture in _captures(config):
        if capture.targetfd:
            with TemporaryFile(buffering=0) as file:
                os.dup2(file.fileno(), capture.tmpfile.fileno(), inheritable=False)


def _descriptors() -> list[int]:
    return [int(path.name) for path in Path("/proc/self/fd").iterdir()]


def _file(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _own(capture: FDCaptureBase[str]) -> tuple[int, int]:
    return capture.targetfd_save, capture.tmpfile.fileno()


def _is_used(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    is_read = S_ISREG(mode) and fcntl(descriptor, F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    return not (is_read or S_ISDIR(mode) or S_ISCHR(mode))


def _replace(descriptor: int, other: int) -> None:
    os.dup2(other, descriptor, inheritable=os.get_inheritable(descriptor))


def _captures(config: pytest.Config) -> tuple[FDCaptureBase[str], ...]:
    manager = config.pluginmanager.getplugin("capturemanager")
    if not isinstance(manager, CaptureManager) or (all_ := manager._global_capturing) is None:
        return ()
    return tuple(one for one in (all_.in_, all_.out, all_.err) if isinstance(one, FDCaptureBase))
