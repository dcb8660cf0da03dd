"""What an image states of its load is compared at each start, and what cannot be is refused."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from images import TIMEOUT_S, Images


def test_a_module_that_asks_for_the_host_and_keeps_no_name_is_for_any(own_images: Images) -> None:
    own_images.module("asks", "import os; SYSTEM = os.uname().sysname")
    own_images.built("--preload", "asks")
    notes = own_images.document()["notes"]
    assert not [one for one in notes if one["code"] == "host"]


def test_an_interrupt_ends_a_program_though_the_build_ignored_it(own_images: Images) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    words = [sys.executable, "-m", "pasture", "image", "build", "-o", own_images.image]
    subprocess.run([*words, "--preload", "json"], env=own_images.environ, preexec_fn=ignore,
                   check=True, capture_output=True)  # fmt: skip
    text = "import signal, time; print(signal.getsignal(1), flush=True); time.sleep(60)"
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        with own_images.popen(["-c", text], stdout=-1, stderr=-1) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"0\n"
            process.send_signal(number)
            assert process.wait(TIMEOUT_S) == -number


# -- which file is the same


def _edited(path: Path) -> None:
    """Another content of the same size, at the same time."""
    before = path.stat()
    path.write_text("VALUE = 2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replaced(path: Path) -> None:
    before = path.stat()
    other = path.with_name("other")
    other.write_text("VALUE = 3\n")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


SAME: dict[str, Callable[[Path], object]] = {
    "touched": lambda path: path.touch(),
    "written again": lambda path: path.write_text(path.read_text()),
    "linked": lambda path: path.with_name("again").hardlink_to(path),
    "a copy in its place": lambda path: _copy(path).replace(path),
}
OTHER: dict[str, Callable[[Path], object]] = {
    "edited": _edited,
    "replaced": _replaced,
    "another mode": lambda path: path.chmod(0o600),
}


def _copy(path: Path) -> Path:
    other = path.with_name("copy")
    other.write_bytes(path.read_bytes())
    other.chmod(path.stat().st_mode & 0o7777)
    return other


@pytest.mark.parametrize("name", [*SAME, *OTHER])
def test_a_file_is_the_same_by_its_content_whatever_its_times_say(
    own_images: Images, name: str
) -> None:
    path = own_images.module("settings", "VALUE = 1\n")
    path.chmod(0o644)
    own_images.built("--preload", "settings")
    assert own_images.why() == ""
    (SAME | OTHER)[name](path)
    assert (own_images.why() == "") is (name in SAME)
    words = ("-B", "-c", "import settings; print(settings.VALUE)")
    if name != "edited":  # python itself takes the bytecode of then
        assert own_images.run(*words).out == own_images.python(*words).out


@pytest.mark.skipif(platform.machine() != "x86_64", reason="one kind of machine is enough")
def test_an_edit_of_the_same_size_at_the_same_time_is_noticed_before_it_is_compiled(
    own_images: Images,
) -> None:
    own_images.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    path = own_images.module("settings", "VALUE = 1\n")
    own_images.built("--preload", "settings")
    _edited(path)
    words = ("-c", "import settings; print(settings.VALUE)")
    assert own_images.run(*words).out == own_images.python(*words).out == b"2\n"
