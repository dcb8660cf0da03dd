"""A program that ends the interpreter and initializes another, and seals each of them.

What the extension keeps in static variables belongs to one interpreter: objects, types, names,
addresses. The second one finds nothing of the first.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from pasture._native import HAS_IMMORTALITY

LIVES = 3

PRELUDE = """
import site, sys
site.addsitedir({purelib!r})
import gc, os, pickle, threading, weakref
import pasture, pasture.gc
from pasture import _native
"""

LIFE = """
class Holds:
    def __init__(self, *held): self.held = held
class Ends:
    def __del__(self): os.write(1, b"ended\\n")
class Box:
    # Holds out of sight of the collector, for all that pasture knows.
    def __init__(self, *held): self.held = held
items = []
def held_by(box):
    items.append(len(box.held))
    return box.held
pasture.register_container(Box, held_by)
below, ended, boxes = bytearray(10), Ends(), [Box([1], [2]), Box([3])]
kept = [Holds(open(os.devnull)), pickle.PickleBuffer(below), {"a": [ended]}]
del ended
log = open("log", "a")
for _ in range(2):
    report = pasture.seal()
    print(report.sealed or report.reason, _native.is_immortal(Holds), sorted(items))
print([_native.is_immortal(one) for one in kept], _native.is_immortal(boxes[0].held[0]))
print(_native.fix_counts()["fixed"], _native.collection_history()["collections"])

def cycle():
    node = Holds()
    node.held = node, threading.Event()
    return weakref.ref(node)

sys.stdout.flush()
if os.fork() == 0:
    log.write("line\\n")
    dead = [cycle() for _ in range(1000)]
    pasture.collect(); gc.collect()
    print(sum(one() is not None for one in dead), _native.collection_history()["collections"] > 0)
    kept.clear(); below.append(1)
    sys.exit(3)
print(os.wait()[1] >> 8, open("log").read().count("line"))
dead = [cycle() for _ in range(1000)]
pasture.collect(frozen=True); gc.collect()
print(sum(one() is not None for one in dead))
kept.clear(); below.append(1)
os.remove("log")
del log
"""

PLAIN = "import gc; gc.collect()"


@pytest.fixture
def run_lives(tmp_path: Path, build_extension):
    """Run sources, each in an interpreter of its own, one after the other in one process."""

    def run(*sources: str, **more: str) -> list[str]:
        library = next(build_extension("initialize_again").iterdir())
        prelude = PRELUDE.format(purelib=sysconfig.get_path("purelib"))
        variables = {**os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONHOME": sys.base_prefix}
        variables |= {"LD_PRELOAD": str(library), "PYTHONPATH": "", **more}
        between = "import os, sys; sys.stdout.flush(); os.write(1, b'--- \\n')"
        arguments = [f"{prelude}\n{source}\n{between}" for source in sources]
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            env=variables,
            cwd=tmp_path,
        )
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout.split("--- \n")[:-1]

    return run


def test_each_interpreter_of_a_process_is_sealed_as_the_first_one(run_lives):
    lives = run_lives(*[LIFE] * LIVES)
    assert lives == [lives[0]] * LIVES
    assert "3 1\n0\n" in lives[0]


@pytest.mark.skipif(not HAS_IMMORTALITY, reason="nothing that is sealed is finalized otherwise")
def test_a_program_that_goes_on_after_py_run_main_has_its_interpreter_finalized(run_lives):
    first = """
class Ends:
    def __del__(self): os.write(1, b"ended\\n")
sys.ends = Ends()
pasture.seal()
if os.fork(): os.wait()
"""
    lives = run_lives(first, "print(hasattr(sys, 'ends'))", BY_RUN_MAIN="1")
    assert lives == ["", "ended\nFalse\n"] * 2  # of the child, and of its parent


def test_one_that_is_not_sealed_comes_after_one_that_was_and_before_another(run_lives):
    first, none, third = run_lives(LIFE, PLAIN, LIFE)
    assert first == third and none == ""


@pytest.mark.skipif(not HAS_IMMORTALITY, reason="no walk asks containers")
def test_a_second_import_into_one_interpreter_forgets_nothing(run_lives):
    again = """
items = []
class Box: ...
_native.register_container(Box, lambda box: items.append(box) or [])
box = Box()
del sys.modules["pasture._native"]
import pasture._native as second
print(second is not _native)
second.immortalize()
print(len(items))
"""
    assert run_lives(again) == ["True\n1\n"]
