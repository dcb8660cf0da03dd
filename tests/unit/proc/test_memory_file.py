"""Files in the kernel's memory, by the C library and by the number of the call."""

import fcntl
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pasture.proc import memory_file
from pasture_image.inside import memory


@pytest.fixture(params=["by Python", "by number"])
def file(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    if request.param == "by number":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    number = memory_file.create("test-board")
    request.addfinalizer(lambda: os.close(number))
    return number


def test_it_is_empty_named_and_closed_at_an_exec(file: int) -> None:
    assert os.fstat(file).st_size == 0
    assert Path(f"/proc/self/fd/{file}").readlink().name.startswith("memfd:test-board")
    assert not os.get_inheritable(file)


def test_a_seal_keeps_its_size(file: int) -> None:
    os.ftruncate(file, 4096)
    fcntl.fcntl(file, memory_file.ADD_SEALS, memory_file.SEAL_SHRINK | memory_file.SEAL_GROW)
    assert (
        fcntl.fcntl(file, memory_file.GET_SEALS) == memory_file.SEAL_SHRINK | memory_file.SEAL_GROW
    )
    for size in (0, 8192):
        with pytest.raises(PermissionError):
            os.ftruncate(file, size)


def test_a_sealed_file_takes_no_more_seals(file: int) -> None:
    fcntl.fcntl(file, memory_file.ADD_SEALS, memory_file.SEAL_SEAL)
    with pytest.raises(PermissionError):
        fcntl.fcntl(file, memory_file.ADD_SEALS, memory_file.SEAL_GROW)


def test_a_machine_whose_number_is_not_known_is_reported_as_a_call_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="pdp11"))
    with pytest.raises(OSError, match="Function not implemented"):
        memory_file.create("test-board")


def test_images_are_made_by_a_python_that_was_built_for_an_old_c_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (os, fcntl):
        for name in [n for n in dir(module) if n.startswith(("MFD_", "memfd_")) or "SEAL" in n]:
            monkeypatch.delattr(module, name)
    importlib.reload(memory)
    number = memory.written("pasture-image", b"pages")
    try:
        assert memory.read(number) == b"pages"
    finally:
        os.close(number)


def test_a_process_that_may_write_no_files_shows_nothing_and_goes_on() -> None:
    program = """
import resource, signal
from pasture.proc.memory_file import Shown
from pasture.scoreboard.board import Scoreboard
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
shown = Shown("pasture-test")
shown.show("text")
try:
    Scoreboard()
except OSError as error:
    print(error.strerror, shown._latest)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "File too large None\n")
