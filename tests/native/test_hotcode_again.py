"""Code is gathered again in a child of a process that keeps it visible what has run."""

import sys

import pytest

from pasture import _native

FUNCTIONS = """
def hot(a):
    return a + 1
def warm(a):
    return a + 2
def cold(a):
    return a * 2
"""


@pytest.fixture(autouse=True)
def no_traces(monkeypatch):
    """Traces hold addresses of code, so that none is gathered where they are made."""
    monkeypatch.setenv("PYTHON_JIT", "0")


def test_code_that_a_child_ran_is_gathered_there_and_no_other(run_program):
    out = run_program(f"""
{FUNCTIONS}
hot(1); warm(1); cold(1)
_native.forget_code_runs()
_native.keep_code_runs(True)
seal_objects()
def child():
    hot(1)
    codes = hot.__code__, cold.__code__
    _native.gather_code()
    return hot.__code__ is codes[0], cold.__code__ is codes[1], hot(3), cold(3)
in_child(child)
""")
    assert out == "(False, True, 4, 6)\n"


@pytest.mark.skipif(
    sys.version_info < (3, 13), reason="before CPython 3.13 no instruction is settled ahead"
)
def test_otherwise_sealed_code_looks_as_if_it_had_run_and_stays_where_it_is(run_program):
    out = run_program(f"""
{FUNCTIONS}
_native.forget_code_runs()
_native.immortalize()
def child():
    hot(1)
    new = {{}}
    exec("def later(a): return a + 1", new)
    later = new["later"]
    later(1)
    codes = hot.__code__, cold.__code__, later.__code__
    _native.gather_code()
    return hot.__code__ is codes[0], cold.__code__ is codes[1], later.__code__ is codes[2]
in_child(child)
""")
    assert out == "(True, True, False)\n"


@pytest.mark.skipif(not _native.HAS_IMMORTALITY, reason="nothing is immortal before CPython 3.12")
def test_sealed_code_is_gathered_where_its_runs_were_forgotten_since(run_program):
    out = run_program(f"""
{FUNCTIONS}
_native.immortalize()
def child():
    _native.forget_code_runs()
    hot(1)
    codes = hot.__code__, cold.__code__
    _native.gather_code()
    return hot.__code__ is codes[0], cold.__code__ is codes[1]
in_child(child)
""")
    assert out == "(False, True)\n"


def test_what_was_gathered_before_stays_where_it_is(run_program):
    out = run_program(f"""
{FUNCTIONS}
_native.forget_code_runs()
_native.keep_code_runs(True)
hot(1)
_native.gather_code()
seal_objects()
def child():
    code = hot.__code__
    hot(1); warm(1)
    old = warm.__code__
    _native.gather_code()
    return hot.__code__ is code, warm.__code__ is old, hot(1), warm(1)
in_child(child)
""")
    assert out == "(True, False, 2, 3)\n"


def test_gathering_goes_on_round_after_round(run_program):
    out = run_program("""
_native.keep_code_runs(True)
kept, rounds = [], []
for i in range(100):
    namespace = {}
    exec(f"def f(a):\\n    return a + {i}", namespace)
    kept.append(namespace["f"])
    kept[i](1)
    before = kept[i].__code__
    _native.gather_code()
    rounds.append(kept[i].__code__ is not before)
codes = [function.__code__ for function in kept]
sums = [function(1) for function in kept]
_native.gather_code()
print(all(rounds), sums == list(range(1, 101)))
print(all(function.__code__ is code for function, code in zip(kept, codes)))
""")
    assert out == "True True\nTrue\n"
