"""Free memory given back: what is free shrinks, what is in use stays as it is."""

import mmap
import os
import sys
import sysconfig

import pytest

pytestmark = [
    pytest.mark.skipif(
        sys.version_info < (3, 13), reason="before 3.13 no code outside sees pymalloc's arenas"
    ),
    pytest.mark.skipif(
        bool(os.environ.get("PYTHONMALLOC") or sysconfig.get_config_var("Py_DEBUG")),
        reason="objects are not allocated by plain pymalloc",
    ),
]

needs_pymalloc = pytest.mark.skipif(
    not sysconfig.get_config_var("WITH_PYMALLOC"), reason="built without pymalloc: no pools"
)
a_pool_has_several_os_pages = pytest.mark.skipif(
    mmap.PAGESIZE >= 16384, reason="no page belongs to a free pool alone: its header stays"
)

PEAK = """
# One block in every arena stays, so that none of them can be unmapped whole.
def peak(text_bytes=200, count=200_000):
    many = ["%08d" % i * (text_bytes // 8) for i in range(count)]
    return many[::4000]
"""


@pytest.fixture
def run_peak(run_program):
    return lambda source: run_program(PEAK + source)


@needs_pymalloc
@a_pool_has_several_os_pages
def test_free_pools_are_given_back_and_what_is_in_use_stays(run_peak):
    out = run_peak("""
kept = peak()
before = private_kib()
freed = _native.trim()
print(freed > 10_000_000, before - private_kib() > freed / 1024 * 0.9)
print(kept == ["%08d" % i * 25 for i in range(0, 200_000, 4000)])
print(_native.trim() < 200_000)
""")
    assert out == "True True\nTrue\nTrue\n"


def test_pools_that_were_given_back_serve_every_size_of_objects(run_peak):
    out = run_peak("""
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
""")
    assert out == "True 50\n"


def test_pools_that_a_child_shares_with_its_parent_are_left_alone(run_peak):
    out = run_peak("""
import mmap
kept = peak()
def body():
    _native.trim()
    private_kib() # the first call of a function writes, too
    before = private_kib()
    return _native.trim(), (private_kib() - before) * 1024 < 25 * mmap.PAGESIZE
in_child(body)
""")
    assert out == "(0, True)\n"


@needs_pymalloc
@a_pool_has_several_os_pages
def test_a_pool_whose_header_a_child_shares_is_left_alone(run_program):
    out = run_program("""
import ctypes, mmap
many = ["%08d" % i * 25 for i in range(200_000)]
pools = {id(one) & -16384 for one in many}
kept = many[::4000]
del many
with open("/proc/self/maps") as file:  # arenas without objects are gone
    spans = [[int(at, 16) for at in line.split()[0].split("-")] for line in file]
pools = {pool for pool in pools if any(start <= pool < end for start, end in spans)}
def body():
    _native.trim()
    for pool in pools:
        at = pool + 2 * mmap.PAGESIZE
        ctypes.memmove(at, at, 1)  # a page inside is its own, and has what it had
    return _native.trim() < len(pools) * mmap.PAGESIZE // 10
in_child(body)
""")
    assert out == "True\n"


@a_pool_has_several_os_pages
def test_a_full_collection_in_the_child_of_a_sealed_process_gives_back_what_it_freed(run_program):
    out = run_program("""
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
""")
    assert out == "(True, True)\n"


TOP = """
import ctypes, mmap
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]

def heaps():
    with open("/proc/self/maps") as lines:
        return sum("[heap]" in line for line in lines)

def use(blocks, block_bytes=1000):
    taken = [libc.malloc(block_bytes) for _ in range(blocks)]
    for block in taken:
        ctypes.memset(block, 1, block_bytes)
    return taken
"""


@pytest.fixture
def run_top(run_program):
    return lambda source: run_program(TOP + source)


def test_the_heap_of_a_hundredth_generation_is_in_no_more_pieces_than_a_tenths(run_top):
    # Each process keeps 2 KB, and is the parent of the next one.
    out = run_top("""
before = None
for generation in range(1, 101):
    use(2)
    for block in use(60):
        libc.free(block)
    _native.trim()
    if generation == 10:
        before = heaps()
    if os.fork():
        _, status = os.wait()
        os._exit(os.waitstatus_to_exitcode(status))
pieces = heaps() - before
print(pieces <= 3 or pieces, flush=True)
os._exit(0)
""")
    assert out == "True\n"


@pytest.mark.skipif("musl" in sysconfig.get_config_var("SOABI"), reason="asks glibc's malloc")
@pytest.mark.skipif(mmap.PAGESIZE > 16384, reason="a block of malloc has no whole page in it")
@pytest.mark.kernel
def test_what_the_end_of_the_heap_needed_at_its_peak_is_given_back(run_top):
    out = run_top("""
def resident(block, os_pages=90_000 // mmap.PAGESIZE - 1):
    found = ctypes.create_string_buffer(os_pages)
    first = -(-block // mmap.PAGESIZE) * mmap.PAGESIZE
    assert libc.mincore(first, os_pages * mmap.PAGESIZE, found) == 0
    return sum(byte & 1 for byte in found.raw)

[block] = use(9, 90_000)[8:]
libc.free(block)
print(resident(block))
_native.trim()
print(resident(block))
""")
    before, after = map(int, out.split())
    assert before == 90_000 // mmap.PAGESIZE - 1
    assert after <= 1  # to ask takes memory, which may come from there


@needs_pymalloc
def test_a_seal_gives_the_parents_free_memory_back_before_the_fork(run_peak):
    out = run_peak("""
import pasture
kept = peak()
before = private_kib()
report = pasture.seal()
print(report.sealed, report.step("give-back").counts["bytes"] > 10_000_000)
print(before - private_kib() > 10_000)
""")
    assert out == "True True\nTrue\n"
