"""Processes that a builder forks: what they say where the system fails them, and who waits."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from pasture.errors import ImageFailed
from pasture_image.build.copying import _wait_until_it_is_stopped
from pasture_image.inside import environment, memory
from pasture_image.inside.apart import Apart

pytestmark = pytest.mark.once


def has_no_memory() -> bytes:
    raise MemoryError


def has_no_room() -> bytes:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("work", [has_no_memory, has_no_room])
def test_a_load_that_the_system_fails_says_so_in_a_line(
    work: Callable[[], bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    environ = memory.create("environ")
    environment.write({}, environ)
    assert Apart(work, environ, ()).result(30) == b""
    os.close(environ)
    said = capfd.readouterr().err
    assert said.startswith("another load is left out: ") and said.count("\n") == 1


def test_a_process_that_ends_in_place_of_its_copy_stays_to_be_waited_for() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    pid = os.posix_spawn("/bin/true", ["true"], {})
    with pytest.raises(ImageFailed, match="ended before it could be copied"):
        _wait_until_it_is_stopped(pid, reader)
    assert os.waitpid(pid, 0) == (pid, 0)
