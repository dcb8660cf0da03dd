"""CPython's tests of its command line and of processes, with `pasture-python` as `sys.executable`.

`.venvs/3.14/bin/python matrix/cpython/image.py [MODULE ...]`: each module twice, by `python` and by
the stub. Programs without options come out of an image, the others by `python`. Prints what
differs. README.md next to this lists what is known.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "image"))

from images import BIN, STUB, Images  # noqa: E402

MODULES = (
    *("test_cmd_line", "test_cmd_line_script", "test_runpy", "test_site", "test_signal"),
    *("test_subprocess", "test_faulthandler", "test_atexit", "test_sys", "test_warnings"),
    *("test_threading", "test_multiprocessing_spawn.test_misc", "test_utf8_mode"),
)
TIMEOUT_S = 1800

Outcomes = Mapping[str, str]


class _Result(unittest.TextTestResult):
    """Outcomes by the names of tests."""

    found: dict[str, str]

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.found.setdefault(test.id(), "passed")
        super().stopTest(test)

    def addError(self, test: unittest.TestCase, err: object) -> None:  # noqa: N802
        self.found[test.id()] = "failed"
        super().addError(test, err)

    def addFailure(self, test: unittest.TestCase, err: object) -> None:  # noqa: N802
        self.found[test.id()] = "failed"
        super().addFailure(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self.found[test.id()] = "skipped"
        super().addSkip(test, reason)

    def addSubTest(self, test: unittest.TestCase, subtest: object, err: object) -> None:  # noqa: N802
        if err is not None:
            self.found[test.id()] = "failed"
        super().addSubTest(test, subtest, err)


def run_inside(module: str, executable: str, results: str) -> None:
    """In a process of its own: run a module of the tests."""
    importlib.import_module(f"test.{module}")  # else the loader makes a test that fails both ways
    sys.executable = executable
    found: dict[str, str] = {}
    _Result.found = found
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{module}")
    unittest.TextTestRunner(resultclass=_Result, verbosity=2).run(suite)
    Path(results).write_text(json.dumps(found))


def outcomes(place: Images, module: str, executable: Path) -> Outcomes:
    """How the tests of a module end; empty if their process does not come to its end."""
    results = place.folder / f"{executable.name}.json"
    results.unlink(missing_ok=True)
    log = HERE.parent.parent / "build" / "cpython-image" / f"{module}-{executable.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file, tempfile.TemporaryDirectory() as folder:
        command = [BIN / "python", __file__, "--inside", module, executable, results]
        try:
            subprocess.run(
                command, env=place.environ, cwd=folder, stdout=file, stderr=file,
                stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pass
    return json.loads(results.read_text()) if results.exists() else {}


def compare(place: Images, module: str) -> bool:
    """Whether a module's tests end the same both ways."""
    expected = outcomes(place, module, BIN / "python")
    found = outcomes(place, module, STUB)
    differ = sorted(name for name in expected if found.get(name) != expected[name])
    print(f"{module}: {len(expected)} tests, {len(differ)} differ", flush=True)
    for name in differ:
        print(f"    {name}: {expected[name]}, by the stub {found.get(name, 'not run')}")
    return bool(expected) and not differ


def main(modules: list[str]) -> int:
    """Compare modules."""
    with tempfile.TemporaryDirectory(prefix="images-") as name:
        Path(name).chmod(0o755)  # other users start programs, too
        images = Images(Path(name))
        images.environ = {**os.environ, "PASTURE_IMAGE": str(images.image)}
        images.built("--preload", "json,decimal,unittest", "--mode", "644")
        if why := images.why():
            raise SystemExit(why)
        return int(not all([compare(images, module) for module in modules or MODULES]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        run_inside(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
