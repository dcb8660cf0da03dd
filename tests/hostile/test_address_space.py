"""RLIMIT_AS: what cannot be mapped must not bring a process down that lives without."""

import pytest

LIMITS = """
import resource
_, hard = resource.getrlimit(resource.RLIMIT_AS)
def limit(more_bytes):
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, hard))
def unlimited():
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
"""

MALLOCS = {
    "as it is": "",
    "a mapping a block": "glibc.malloc.mmap_threshold=16:glibc.malloc.mmap_max=1000000",
}


@pytest.mark.parametrize("malloc", MALLOCS)
def test_plugging_where_no_arena_can_be_mapped(run_program, malloc):
    """pymalloc then serves small blocks from malloc: they lie in no pool."""
    out = run_program(
        f"""
{LIMITS}
import ctypes
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
free = ctypes.CDLL(None).free
free.argtypes, free.restype = [ctypes.c_void_p], None
held, places = [None] * 1_000_000, [*range(0, 20_000, 20)]  # no pool becomes free
def fill_pools():
    try:
        for place in range(len(held)): held[place] = float(place)
    except MemoryError: pass
    for place in places: held[place] = None
def work():
    given = ctypes.c_void_p.from_param  # as ctypes passes it: it has no memory for that later
    blocks = [given(malloc(size)) for size in range(16, 512, 16) for _ in range(200)]
    malloc(64)  # behind them: what is freed stays malloc's
    limit(0)
    fill_pools()
    for block in blocks: free(block)
    plugged = _native.plug_pymalloc()
    unlimited()
    assert [bytes(size) for size in range(512)] == [b"\\0" * size for size in range(512)]
    return plugged["bytes"]
for _ in range(5): in_child(work)
""",
        env={"GLIBC_TUNABLES": MALLOCS[malloc]},
    )
    # What malloc gave is no hole between objects.
    assert max(map(int, out.split())) < 1 << 20


SEAL_UNDER_A_LIMIT = f"""
{LIMITS}
heap = [{{"id": i, "text": str(i)}} for i in range(20_000)]
seal = pasture.seal  # imported before: an import under a limit of nothing fails
limit(MEBIBYTES << 20)
report = seal()
unlimited()
def work():
    dead = weakref.ref(cycle())
    gc.collect()
    return dead() is None, sum(each["id"] for each in heap), len(str(report)) > 0
in_child(work)
print(work())
"""


def test_the_seal_under_a_limit_leaves_a_process_that_works(run_each):
    limits = (0, 1, 2, 4, 8, 16, 24, 31, 33, 40, 64, 128)
    programs = {
        f"{mebibytes} MiB": f"MEBIBYTES = {mebibytes}\n{SEAL_UNDER_A_LIMIT}" for mebibytes in limits
    }
    assert run_each(programs) == dict.fromkeys(programs, "(True, 199990000, True)\n" * 2)


def test_a_sealed_child_with_little_address_space_still_frees_its_cycles(run_program):
    """The marks of a collection out of line want 32 MiB at first; the built-in one wants none."""
    out = run_program(f"""
{LIMITS}
pasture.seal()
def work(mebibytes):
    assert pasture.gc.is_installed()
    limit(mebibytes << 20)
    alive = 0
    for _ in range(100):
        node = cycle(); node.load = bytes(1 << 20)
        gc.collect(0); gc.collect(1)
        dead = weakref.ref(node); del node
        gc.collect()
        alive += dead() is not None
    return mebibytes, alive
for each in (4, 12, 20, 28): in_child(lambda: work(each))
""")
    assert out == "(4, 0)\n(12, 0)\n(20, 0)\n(28, 0)\n"


def test_a_sealed_child_with_too_little_address_space_for_any_mark_still_collects(run_program):
    out = run_program(f"""
{LIMITS}
pasture.seal()
def work():
    assert pasture.gc.is_installed()
    node = cycle()
    dead = weakref.ref(node)
    limit(0)
    del node
    gc.collect()
    return dead()
in_child(work)
""")
    assert out == "None\n"


def test_a_sealed_child_with_little_address_space_collects_by_itself(run_program):
    """Cycles that reach the oldest generation before they die, as sessions and requests do."""
    out = run_program(f"""
{LIMITS}
pasture.seal()
def work():
    limit(80 << 20)  # enough for a process without pasture
    window = []
    for number in range(300_000):
        node = cycle(); node.load = bytes(2048)
        window.append(node)
        if len(window) == 3000: window = window[2000:]
    return "alive"
in_child(work)
""")
    assert out == "alive\n"


def test_a_collection_that_was_asked_for_says_that_memory_was_refused(run_program):
    out = run_program(f"""
{LIMITS}
gc.disable()
dead = weakref.ref(cycle())
limit(4 << 20)
try:
    print("collected", pasture.collect() >= 1)
except MemoryError:
    print("refused")
unlimited()
print(pasture.collect() >= 0, dead())
""")
    assert out in ("collected True\nTrue None\n", "refused\nTrue None\n")
