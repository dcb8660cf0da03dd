"""Plugged holes: nothing allocated afterwards lies between what was there before."""

import os
import sys
import sysconfig

import pytest

needs_pymalloc = pytest.mark.skipif(
    hasattr(sys, "gettotalrefcount") or not sysconfig.get_config_var("WITH_PYMALLOC"),
    reason="a debug build wraps pymalloc, another has none",
)
needs_glibc = pytest.mark.skipif(
    "musl" in sysconfig.get_config_var("SOABI"), reason="musl's malloc has no heap with an end"
)

# Blocks of `size` bytes in a row, every second one freed: holes of a known size and place.
COMB = """
import ctypes
def comb(make, count):
    kept = [make() for _ in range(count)]
    low, high = min(map(id, kept)), max(map(id, kept))
    del kept[::2]
    return kept, low, high
def inside(objects, low, high):
    return sum(low <= id(item) <= high for item in objects)
"""


@needs_pymalloc
@pytest.mark.parametrize("size", [16, 40, 200, 470])
def test_no_object_is_allocated_between_older_ones_after_pools_are_plugged(run_program, size):
    out = run_program(f"""
{COMB}
make = lambda: bytes({size})
kept, low, high = comb(make, 3000)
reused = [make() for _ in range(500)]
assert inside(reused, low, high) > 100, "the comb has no holes: the test shows nothing"
del reused
plugged = _native.plug_pymalloc()
assert plugged["blocks"] >= 1000, plugged
fresh = [make() for _ in range(2000)]
pools = {{id(item) >> 14 for item in kept}}
print(sum(id(item) >> 14 in pools for item in fresh))
""")
    assert out == "0\n"


@needs_glibc
@pytest.mark.parametrize("size", [600, 3000, 20_000])
@pytest.mark.kernel
def test_no_chunk_is_allocated_below_the_top_after_the_heap_is_plugged(run_program, size):
    out = run_program(f"""
{COMB}
make = lambda: bytes({size})
kept, low, high = comb(make, 400)
reused = [make() for _ in range(50)]
assert inside(reused, low, high) > 10, "the comb has no holes: the test shows nothing"
del reused
plugged = _native.plug_malloc()
assert plugged["bytes"] >= 100 * {size}, plugged
fresh = [make() for _ in range(300)]
print(inside(fresh, low, high))
""")
    assert out == "0\n"


@needs_pymalloc
@pytest.mark.kernel
def test_a_second_call_finds_only_what_was_opened_since(run_program):
    # At most one small chunk a size near the top, and one pool a size class.
    out = run_program(f"""
{COMB}
kept = comb(lambda: bytes(100), 20_000), comb(lambda: bytes(5000), 400)
first = _native.plug_malloc(), _native.plug_pymalloc()
again = _native.plug_malloc(), _native.plug_pymalloc()
assert first[0]["bytes"] > 900_000 and first[1]["bytes"] > 1_300_000, first
print(again[0]["bytes"] < 64 << 10, again[1]["bytes"] <= 32 * 16384)
""")
    assert out == "True True\n"


@pytest.mark.parametrize("allocator", ["malloc", "debug"])
def test_another_object_allocator_is_recognised_and_left_alone(run_program, allocator):
    out = run_program(
        """
        try:
            _native.plug_pymalloc()
        except NotImplementedError as reason:
            print(reason)
        """,
        env=os.environ | {"PYTHONMALLOC": allocator},
    )
    assert "not allocated by plain pymalloc" in out


def test_hooks_of_tracemalloc_are_recognised(run_program):
    out = run_program("""
        import tracemalloc
        tracemalloc.start()
        try:
            _native.plug_pymalloc()
        except NotImplementedError as reason:
            print(reason)
    """)
    assert "hooked functions" in out


AFTER_THREADS = """
import ctypes, threading
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]

def foreign_blocks(of_each_size):
    # From the arenas of threads, which have ended by the time that this thread frees them.
    blocks = []
    gate = threading.Barrier(8)
    def allocate():
        gate.wait()
        for size in range(24, 1100, 16):
            blocks.extend([library.malloc(size) for _ in range(of_each_size)])
        gate.wait()
    threads = [threading.Thread(target=allocate) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return blocks
"""


@needs_glibc
@pytest.mark.parametrize(("tunables", "kept"), [("", 16), ("glibc.malloc.tcache_count=600", 600)])
@pytest.mark.kernel
def test_chunks_of_ended_threads_at_hand_hide_no_hole_of_the_main_heap(run_program, tunables, kept):
    # As many as the thread keeps of a size: each is handed out before any of the main heap.
    out = run_program(
        f"""
{AFTER_THREADS}
sizes = [56, 88, 344, 600, 1000]
combs = [[library.malloc(size) for _ in range(2000)] for size in sizes]
for block in foreign_blocks({kept} // 8): library.free(block)
freed = {{block for comb in combs for block in comb[::2]}}
assert len(freed) == 5000
for block in freed: library.free(block)
for block in foreign_blocks({kept} // 8): library.free(block)
plugged = _native.plug_malloc()
again = {{library.malloc(size) for size in sizes for _ in range(3000)}}
print(plugged["bytes"] > 1000 * sum(sizes) * 0.9, len(again & freed) <= 20 or len(again & freed))
""",
        env=os.environ | {"GLIBC_TUNABLES": tunables},
    )
    assert out == "True True\n"


@needs_glibc
def test_holes_of_the_main_heap_are_not_plugged_by_another_thread(run_program):
    out = run_program("""
        import threading
        def work():
            try: print(_native.plug_malloc())
            except NotImplementedError as error: print(error)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    """)
    assert out.startswith("glibc: ") and "not the main thread" in out
