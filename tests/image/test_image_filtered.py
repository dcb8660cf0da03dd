"""Programs out of a file under filters of system calls: they start, or the interpreter does."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from images import BIN, SAID, STUB, Images

pytestmark = [
    pytest.mark.once,
    pytest.mark.integration,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64"),
]

FILTERED = Path(__file__).with_name("filtered.py")
PR_SET_MM = 35
SOURCE = """\
import ctypes, gc, json, os, subprocess, sys, threading
thread = threading.Thread(target=gc.collect); thread.start(); thread.join()
print(subprocess.run([sys.executable, "-c", "print(2)"], capture_output=True).stdout)
if not os.fork():
    os._exit(3)
print(os.wait()[1], json.dumps([1]))
libc = ctypes.CDLL(None, use_errno=True)
print(libc.unshare(0x10000000), ctypes.get_errno(), libc.personality(0))
"""


def run(images: Images, name: str, program: Path, source: str) -> tuple[bytes, bytes]:
    words = (str(FILTERED), name, str(program), "-c", source)
    ended = images.run(*words, program=Path(sys.executable), environ=SAID)
    assert ended.status == 0, ended
    return ended.out, ended.err


def test_a_program_starts_out_of_a_file_under_dockers_profile(images: Images) -> None:
    out, said = run(images, "docker", STUB, SOURCE)
    assert b": started from the image: " in said
    assert out == run(images, "docker", BIN / "python", SOURCE)[0]
    assert out.endswith(b"-1 1 -1\n"), "the filter refuses what it should"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (f"prctl:{PR_SET_MM}", b"this kernel does not let a process describe its memory"),
        ("mremap", b"the kernel refuses to map the image: python runs"),
    ],
)
def test_a_kernel_that_refuses_a_step_has_the_interpreter_run_the_program(
    images: Images, name: str, why: bytes
) -> None:
    """As gVisor, which knows no PR_SET_MM."""
    source = "import sys; print('changing' in sys.modules, sys.argv)"
    out, said = run(images, name, STUB, source)
    assert (out, why in said) == (b"False ['-c']\n", True)
