"""Standard streams after a fork: those of the process above are neither read nor written any more.

Objects stay, and with them the handlers of `logging` that hold one: new files are laid under the
descriptors that pytest's capture has open.
"""

from __future__ import annotations

import os
from tempfile import TemporaryFile

import pytest
from _pytest.capture import CaptureManager, FDCaptureBase


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


def _captures(config: pytest.Config) -> tuple[FDCaptureBase[str], ...]:
    manager = config.pluginmanager.getplugin("capturemanager")
    if not isinstance(manager, CaptureManager) or (all_ := manager._global_capturing) is None:
        return ()
    return tuple(one for one in (all_.in_, all_.out, all_.err) if isinstance(one, FDCaptureBase))
