"""Generators of random numbers in forked children: which are each child's own, and which all share.

A worker that loads for itself seeds each generator by itself, unless the program says with what.
"""

import json
import sys
from pathlib import Path

import pytest
from running import completed

PROGRAM = Path(__file__).parents[1] / "programs" / "drawing.py"
SEEDED = [
    *("default_rng, seeded", "RandomState, seeded", "Random, seeded"),
    *("Random, set", "PCG64, set"),
]
"""Those of the program's that it seeds, or sets."""

TORCH = """
import random, sys
from importlib.machinery import ModuleSpec
from types import ModuleType

class Generator:
    def __init__(self): self.seed()
    def initial_seed(self): return self.now
    def manual_seed(self, number): self.now = number
    def seed(self): self.now = random.SystemRandom().getrandbits(53); return self.now
    def draw(self): return self.now

class Finder:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if name.startswith("torch") else None
    def create_module(self, spec): return None
    def exec_module(self, module):
        if module.__name__ == "torch._C":
            module.default_generator = Generator()
        if module.__name__ == "torch":
            import torch._C
            import torch.random

sys.meta_path.append(Finder())
"""
"""A library that says what it was seeded with, as torch does."""


def shared(within: str = "", before: str = "", after: str = "") -> tuple[list[str], list[str]]:
    """Names of generators that two children share, and the hazards."""
    pytest.importorskip("numpy")
    done = completed([sys.executable, str(PROGRAM), before, within, after])
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    names, hazards = json.loads(done.stdout)
    return names, hazards


@pytest.mark.parametrize(
    "drawn", ["", "numbers.random(20_000_000)"], ids=["untouched", "much drawn"]
)
def test_a_child_seeds_what_the_program_has_not_seeded(drawn: str) -> None:
    assert shared(drawn) == (SEEDED, [])


@pytest.mark.parametrize("seeding", ["numbers.seed(3)", "numbers.seed()"])
def test_numpys_generator_stays_as_the_program_has_seeded_it_and_is_reported(seeding: str) -> None:
    names, hazards = shared(seeding)
    assert names == ["numpy", *SEEDED]
    assert len(hazards) == 1
    assert "numpy's generator, which the program has seeded, is the same" in hazards[0]


@pytest.mark.parametrize("call", ["server.accept", "lambda: sleep(60)", "partial(sleep, 60)"])
def test_sqlites_generator_stays_where_a_thread_may_hold_sqlites_locks(call: str) -> None:
    waits = call == "server.accept"
    after = f"""import socket, sys, threading, warnings; from functools import partial
from time import sleep; warnings.simplefilter("ignore")
server = socket.create_server(("127.0.0.1", 0))
one = threading.Thread(target={call}, daemon=True); one.start()
while {waits} and sys._current_frames()[one.ident].f_code.co_name != "accept": sleep(0.01)"""
    assert ("sqlite3" in shared(after=after)[0]) != waits


def test_generators_that_the_program_made_before_stay_as_they_are_in_children_without_pasture() -> (
    None
):
    before = "import numpy.random as n; old = n.default_rng(); mine = random.Random()"
    within = "draws |= {'old': old.random, 'mine': mine.random}"
    names, hazards = shared(within, before)
    assert names == ["numpy", *SEEDED, "old", "mine"]
    assert not hazards


def test_a_child_of_a_child_shares_its_generators_as_without_pasture() -> None:
    after = "import os; os.fork() and os._exit(os.waitstatus_to_exitcode(os.wait()[1]))"
    names, _ = shared(after=after)
    assert {"numpy", "default_rng", "Random"} <= set(names)


def test_torchs_generator_is_seeded_in_each_child_unless_the_program_has_seeded_it() -> None:
    draws = "; draws['torch'] = torch._C.default_generator.draw"
    assert "torch" not in shared(f"import torch{draws}", TORCH)[0]
    seed = "import torch; torch._C.default_generator.manual_seed(7)"
    names, hazards = shared(f"{seed}{draws}", TORCH)
    assert "torch" in names
    assert "torch's generator, which the program has seeded, is the same" in hazards[0]


def test_what_the_program_puts_in_place_of_the_librarys_stays() -> None:
    within = """
import os
class Own(random.Random):
    __hash__ = None
    def __eq__(self, other): raise AssertionError
made = Own()
draws['a class of its own'] = made.random
os.urandom = lambda size: bytes(size)
plain = random.Random.seed
"""
    after = "assert os.urandom(2) == bytes(2); assert random.Random.seed is not plain"
    names, _ = shared(within, after=after)
    assert "a class of its own" not in names
