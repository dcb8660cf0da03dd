"""What modules print while they are loaded: programs print it as under `python`."""

from __future__ import annotations

from tests.image.images import Images

PRINTS = """
import ctypes, subprocess, sys, warnings
print("printed")
sys.stderr.write("written\\n")
warnings.warn("deprecated")
subprocess.run(["echo", "by a child"])
ctypes.CDLL(None).write(2, b"in C\\n", 5)
"""
PROGRAMS = (
    "import outer",
    "print(1)",
    "import outer, prints; print(2)",
    "from package import inner; print(3)",
    "import importlib; importlib.import_module('outer'); importlib.import_module('outer')",
    "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()): import package.inner",
    "import sys; sys.stdout = None; import package.inner",
    "import importlib, outer; importlib.reload(outer)",
    "import outer; print(outer.__spec__._initializing, type(outer.__spec__))",
)


def test_what_modules_print_is_printed_by_programs_that_import_them(own_images: Images) -> None:
    own_images.module("prints", PRINTS)
    own_images.module("outer", "import prints; print('more')")
    package = own_images.lib / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inner.py").write_text("print('inner')\n")
    built = own_images.build("--preload", "outer,package.inner")
    assert built.stderr.count("printed") == 1, built.stderr
    for program in PROGRAMS:
        assert own_images.why("-c", program) == "", program
        ours, plain = own_images.run("-c", program), own_images.python("-c", program)
        for one, other in ((ours.out, plain.out), (ours.err, plain.err)):
            assert sorted(one.splitlines()) == sorted(other.splitlines()), program
        assert ours.status == plain.status
    assert own_images.why("-m", "outer").endswith("outer prints while it is loaded")
    assert own_images.run("-m", "outer") == own_images.python("-m", "outer")


def test_what_modules_print_differently_is_said(own_images: Images) -> None:
    own_images.module("prints", "import time; print('at', time.time_ns())")
    own_images.module("folder", "import os; HOME = os.path.expanduser('~'); print(HOME)")
    for name in ("prints", "folder"):
        built = own_images.build("--preload", name)
        assert built.returncode == 0
        assert f"{name} prints while loading, something else each time" in built.stdout
        assert own_images.run("-c", f"import {name}").out == b""


def test_code_in_c_that_prints_much_and_lets_no_thread_run_is_loaded_twice(
    own_images: Images,
) -> None:
    own_images.module(
        "much", "import ctypes\nctypes.PyDLL(None).write(1, b'x' * 100_000, 100_000)\n"
    )
    built = own_images.build("--preload", "much")
    assert "cannot be loaded twice" not in built.stderr
    assert own_images.run("-c", "import much") == own_images.python("-c", "import much")
    assert own_images.why("-c", "import much") == ""
