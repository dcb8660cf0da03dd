"""An extension that was built for another build of the same version refuses, and says so."""

import subprocess
import sys
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
