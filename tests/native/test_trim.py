"""Free memory given back: what is free shrinks, what is in use stays as it is."""

import os
import sys
import sysconfig

import pytest

pytestmark = [
    pytest.mark.skipif(
        sys.version_info < (3, 13), reason="before 3.13 nobody outside sees pymalloc's arenas"
    ),
    pytest.mark.skipif(
        bool(os.environ.get("PYTHONMALLOC") or sysconfig.get_config_var("Py_DEBUG")),
        reason="objects are not allocated by plain pymalloc",
    ),
]

PEAK = """
# One block in every arena stays, so that none of them can be unmapped whole.
def peak(text_bytes=200, count=200_000):
    many = ["%08d" % i * (text_bytes // 8) for i in range(count)]
    return many[::4000]
"""


def test_free_pools_are_given_back_and_what_is_in_use_stays(run_program):
    out = run_program(
        PEAK
        + """
kept = peak()
before = private_kib()
freed = _native.trim()
print(freed > 10_000_000, before - private_kib() > freed / 1024 * 0.9)
print(kept == ["%08d" % i * 25 for i in range(0, 200_000, 4000)])
print(_native.trim() < 200_000)
"""
    )
    assert out == "True True\nTrue\nTrue\n"


def test_pools_that_were_given_back_serve_every_size_of_objects(run_program):
    out = run_program(
        PEAK
        + """
import random
random.seed(1)
kept, alive = peak(), {}
for round in range(40):
    for _ in range(3000):
        size = random.randrange(1, 500)
        key = random.randrange(20_000)
        alive[key] = bytes([key % 251]) * size
    for key in random.sample(sorted(alive), len(alive) // 2):
        del alive[key]
    _native.trim()
print(all(set(text) == {key % 251} for key, text in alive.items()), len(kept))
"""
    )
    assert out == "True 50\n"


def test_pools_that_a_child_shares_with_its_parent_are_left_alone(run_program):
    out = run_program(
        PEAK
        + """
kept = peak()
def body():
    _native.trim()
    before = private_kib()
    return _native.trim(), private_kib() - before < 100
in_child(body)
"""
    )
    assert out == "(0, True)\n"


def test_a_full_collection_in_the_child_of_a_sealed_process_gives_back_what_it_freed(run_program):
    out = run_program(
        """
import pasture
pasture.seal()
def given_back():
    class Ring: pass
    pins = []
    for i in range(40):
        ring = Ring()
        ring.itself, ring.texts = ring, ["%08d" % j * 25 for j in range(4000)]
        pins.append("%08d" % i * 25)  # keeps its arena from being unmapped whole
    high = private_kib()
    gc.collect()
    return high - private_kib()
def body():
    trimmed = given_back()
    _native.trim_after_collections(False)
    return trimmed > 20_000, given_back() < 10_000
in_child(body)
"""
    )
    assert out == "(True, True)\n"
