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

    def boot(self, script: str, cpu: str = BUILT_ON, kernel: str = "trixie") -> str:
        """Switch a machine on, run a script, and switch it off; returns what the script printed."""
        tool = REPOSITORY / "tools" / "machine"
        words = ["--cpu", cpu, "--kernel", kernel, "--disk", self.path, "--limit", str(LIMIT_S)]
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


LEVELS = {"x86-64-v2": "Nehalem", "x86-64-v3": "Haswell"}
"""What images are built for, and where."""


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Disk, dict[str, str]]:
    """A disk with an image a level, and the answers of a program out of each where it was built."""
    disk = Disk(tmp_path_factory.mktemp("levels") / "disk")
    found = {}
    for level, cpu in LEVELS.items():
        image = f"/mnt/{level}.img"
        printed = disk.boot(f"{build('--cpu', level, image=image)}; echo; {start(image)}", cpu)
        said, _, found[level] = printed.partition("\n\n")[2].partition("\n")
        assert said.endswith(f"started from the image: {image}"), printed
    return disk, found


@pytest.mark.parametrize("cpu", ["Nehalem", "Haswell", "EPYC", "max"])
def test_an_image_of_a_level_gives_the_same_answers_on_each_processor_that_has_it(
    levels: tuple[Disk, dict[str, str]], cpu: str
) -> None:
    disk, answers = levels
    both = "; echo; ".join(start(f"/mnt/{level}.img") for level in LEVELS)
    printed = dict(zip(LEVELS, disk.boot(both, cpu).split("\n\n"), strict=True))
    for level, lines in printed.items():
        said, _, given = lines.partition("\n")
        if (level, cpu) == ("x86-64-v3", "Nehalem"):
            assert said.endswith("made under another size of the processor's state")
        else:
            assert said.endswith(f"started from the image: /mnt/{level}.img")
            assert given.strip() == answers[level].strip()


KERNELS = ("bullseye", "bookworm", "trixie", "forky")
"""Of releases of Debian, the oldest first: the image is built there."""


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Disk, str]:
    """A disk with an image for all processors, and the answers of a program out of it."""
    disk = Disk(tmp_path_factory.mktemp("kernels") / "disk")
    script = f"{build('--cpu', 'x86-64-v2')}; echo; {start()}"
    printed = disk.boot(script, "Nehalem", KERNELS[0])
    said, _, answers = printed.partition("\n\n")[2].partition("\n")
    assert said.endswith(STARTED), printed
    return disk, answers.strip()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cpu", ["Nehalem", "Haswell", "EPYC"])
def test_one_file_starts_under_each_kernel_on_each_processor(
    oldest: tuple[Disk, str], kernel: str, cpu: str
) -> None:
    disk, answers = oldest
    said, _, given = disk.boot(start(), cpu, kernel).partition("\n")
    assert said.endswith(STARTED)
    assert given.strip() == answers


def test_the_kernel_lets_no_process_write_to_a_protected_image(disk: Disk) -> None:
    image = "/mnt/verity.img"
    check = f"{BIN}/python -m pasture image check {image}"
    script = (
        f"{build('--verity', image=image)}; {start(image)}; {check}; (: >> {image}) && exit 9;"
        f" umount /mnt; mount /dev/vda /mnt; {start(image)}"
    )
    printed = disk.boot(script)
    assert printed.count(f"started from the image: {image}") == 2
    assert "fs-verity: the kernel compares each page that it reads" in printed
    assert "Operation not permitted" in printed


def test_a_processor_that_has_more_features_gives_the_same_answers(disk: Disk) -> None:
    printed = disk.boot(f"{start()}; echo; {by_python()}", f"{BUILT_ON},+adx,+rdseed,+smap")
    said, _, rest = printed.partition("\n")
    assert said == f"pasture-python: {STARTED}"
    image, _, python = rest.partition("\n\n")
    assert image.strip() == python.strip()
