"""Images on machines with kernels of their own: after a reboot, and on other processors.

`make test-machines` runs this. A machine is emulated (tools/machine) and takes half a minute. A run
that was broken off goes on with `ARGS=--stepwise`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
ANSWERS = Path(__file__).parents[1] / "programs" / "many_answers.py"
IMAGE = "/mnt/app.img"
MODULES = "json,zlib,hashlib,ssl,sqlite3,numpy,numpy.linalg,numpy.fft"
LIMIT_S = 500
STARTED = f"started from the image: {IMAGE}"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
BUILT_ON = "Haswell"
FEWER = {
    "Nehalem": "model of the processor",
    "EPYC": "maker of the processor",
    "Haswell,-avx": "set of registers that programs use",
    "Haswell,-avx2": "set of features of the processor (7)",
    "Haswell,-movbe": "set of features of the processor (1)",
}
"""Processors on which an image of `BUILT_ON` is refused, and why."""

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


@dataclass(frozen=True)
class Disk:
    """What stays of a machine when it is switched off."""

    path: Path

    def boot(self, script: str, cpu: str = BUILT_ON) -> str:
        """Switch a machine on, run a script, and switch it off; returns what the script printed."""
        tool = REPOSITORY / "tools" / "machine"
        words = ["--cpu", cpu, "--disk", self.path, "--limit", str(LIMIT_S)]
        done = subprocess.run(
            [tool, *words, "--", "sh", "-ec", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def build(*words: str, image: str = IMAGE) -> str:
    """A line of a script that builds an image."""
    given = ("image", "build", "-o", image, "--preload", MODULES, *words)
    return f"{BIN}/python -m pasture {shlex.join(given)}"


def start(image: str = IMAGE) -> str:
    """A line of a script that starts a program out of an image.

    Its process id is none of the build's: one of a machine that was just booted can be.
    """
    variables = f"PASTURE_IMAGE={image} PASTURE_IMAGE_VERBOSE=1"
    last = "/proc/sys/kernel/ns_last_pid"
    return f"echo 20000 > {last}; {variables} {BIN}/pasture-python {ANSWERS}"


def by_python() -> str:
    """The same by the interpreter."""
    return f"{BIN}/python {ANSWERS}"


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    """With an image that was built on a machine which is switched off now."""
    found = Disk(tmp_path_factory.mktemp("machine") / "disk")
    printed = found.boot(f"{build()}; cp {BOOT_ID} /mnt; {start()}")
    assert STARTED in printed
    return found


def test_programs_start_out_of_an_image_after_a_reboot(disk: Disk) -> None:
    printed = disk.boot(f"cat /mnt/boot_id {BOOT_ID}; {start()}; echo; {by_python()}")
    before, now, said, rest = printed.split("\n", 3)
    assert before != now
    assert said == f"pasture-python: {STARTED}"
    image, _, python = rest.partition("\n\n")
    assert image.strip() == python.strip()
    assert re.search(r"^sha256 [0-9a-f]{64}$", image, re.M)


@pytest.mark.parametrize("cpu", FEWER)
def test_an_image_is_refused_on_another_processor_which_has_the_interpreters_answers(
    disk: Disk, cpu: str
) -> None:
    printed = disk.boot(f"{start()}; echo; {by_python()}", cpu)
    said, _, rest = printed.partition("\n")
    assert said.endswith(f": the image was made under another {FEWER[cpu]}")
    image, _, python = rest.partition("\n\n")
    assert image.strip() == python.strip()


def test_a_processor_that_has_more_features_gives_the_same_answers(disk: Disk) -> None:
    printed = disk.boot(f"{start()}; echo; {by_python()}", f"{BUILT_ON},+adx,+rdseed,+smap")
    said, _, rest = printed.partition("\n")
    assert said == f"pasture-python: {STARTED}"
    image, _, python = rest.partition("\n\n")
    assert image.strip() == python.strip()
