"""What an image states of its load is compared at each start, and what cannot be is refused."""

from __future__ import annotations

import signal
import subprocess
import sys

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
