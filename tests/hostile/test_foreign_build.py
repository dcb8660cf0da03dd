"""An extension in another build of the version that it was built for: it works there, or refuses
and says so."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pasture import _native

REPOSITORY = Path(__file__).parent.parent.parent
DEBUG_BUILD = hasattr(sys, "gettotalrefcount")

LOADING = """
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.ExtensionFileLoader("pasture._native", sys.argv[1])
spec = importlib.util.spec_from_loader("pasture._native", loader)
module = importlib.util.module_from_spec(spec)
loader.exec_module(module)
try:
    module.check_layout()
except RuntimeError as error:
    print("refused:", error)
else:
    print("accepted")
"""


def interpreter(*words: str) -> str:
    """Path of another build of the interpreter that runs this test."""
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = ["tools/interpreters", "path", minor, *words]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no such interpreter here: {done.stderr.strip()}")
    return done.stdout.strip()


@pytest.mark.skipif(DEBUG_BUILD, reason="this is a debug build itself")
def test_a_debug_interpreter_refuses_an_extension_for_release_builds():
    python = interpreter("--with", "dbg")
    done = subprocess.run(
        [python, "-X", "faulthandler", "-c", LOADING, _native.__file__],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused: ")


@pytest.mark.skipif(not DEBUG_BUILD, reason="this is a release build")
def test_a_release_interpreter_refuses_an_extension_for_debug_builds():
    done = subprocess.run(
        [interpreter(), "-X", "faulthandler", "-c", LOADING, _native.__file__],
        capture_output=True,
        text=True,
    )
    # The dynamic linker may be the one to refuse: debug builds export more.
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.startswith("refused: ") or "undefined symbol" in done.stderr


SEALING = """
import importlib.machinery, importlib.util, json, os, sys
sys.path.insert(0, sys.argv[2])
loader = importlib.machinery.ExtensionFileLoader("pasture._native", sys.argv[1])
spec = importlib.util.spec_from_loader("pasture._native", loader)
module = importlib.util.module_from_spec(spec)
sys.modules["pasture._native"] = module
loader.exec_module(module)
import gc
import pasture
assert sys.modules["pasture._native"] is module
data = [[str(number)] for number in range(50_000)]
report = pasture.seal()
read, write = os.pipe()
if os.fork() == 0:
    cycles = [[] for _ in range(1000)]
    for each in cycles:
        each.append(each)
    del cycles, each
    collected = gc.collect()
    total = sum(len(each[0]) for each in data)
    with open("/proc/self/smaps_rollup") as lines:
        fields = dict(line.split()[:2] for line in lines if line.startswith("Private_Dirty"))
    found = {"collected": collected, "total": total,
             "private_kib": sum(map(int, fields.values()))}
    os.write(write, json.dumps(found).encode())
    os._exit(0)
os.close(write)
child = json.loads(os.read(read, 10_000))
print(json.dumps({**child, "sealed": report.sealed, "version": sys.version.split()[0],
    "left_out": module.left_out(), "report": str(report)}))
"""


def other_builds() -> Iterator[Path]:
    """Release builds of this minor version, by others or of other patch releases."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pasture"
    own = os.path.realpath(sys.executable)
    for pattern in (f"{pyenv}/versions/*/bin/{name}", f"{cache}/interpreters/*/usr/bin/{name}"):
        for path in sorted(Path("/").glob(pattern.lstrip("/"))):
            if os.path.realpath(path) != own:
                yield path


@pytest.mark.skipif(DEBUG_BUILD, reason="the others are release builds")
def test_one_build_of_the_extension_seals_in_every_build_of_its_version():
    builds = list(other_builds())
    if not builds:
        pytest.skip("no other build of this version here")
    for python in builds:
        command = [python, "-X", "faulthandler", "-c", SEALING, _native.__file__]
        done = subprocess.run(
            [*command, REPOSITORY / "src"], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{python}: {done.stderr}"
        found = json.loads(done.stdout)
        assert found["sealed"] and found["left_out"] == [], found
        assert found["collected"] >= 1000 and found["total"] == 238_890, found
        if sys.version_info >= (3, 12):  # the first with immortal objects
            assert found["private_kib"] < 4000, found
