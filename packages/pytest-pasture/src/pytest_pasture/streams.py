"""Standard streams after a fork: those of the process above are neither read nor written any more.

Objects stay, and with them the handlers of `logging` that hold one: new files are laid under the
descriptors that pytest's capture has open.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from _pytest.capture import CaptureManager, FDCaptureBase


class Standard:
    """The standard streams that a process was started with, wherever it has them open."""

    def __init__(self) -> None:
        self._files = [_file(descriptor) for descriptor in (0, 1, 2)]
        self._errors: list[int] = []

    def let_go(self) -> None:
        """Close all of them."""
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


def _replace(descriptor: int, other: int) -> None:
    os.dup2(other, descriptor, inheritable=os.get_inheritable(descriptor))


def _captures(config: pytest.Config) -> tuple[FDCaptureBase[str], ...]:
    manager = config.pluginmanager.getplugin("capturemanager")
    if not isinstance(manager, CaptureManager) or (all_ := manager._global_capturing) is None:
        return ()
    return tuple(one for one in (all_.in_, all_.out, all_.err) if isinstance(one, FDCaptureBase))
