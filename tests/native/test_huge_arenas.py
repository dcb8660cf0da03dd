"""Arenas in huge pages: after 64 MiB of small ones, and in the process that asks alone."""

import sys
from pathlib import Path

import pytest

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        not ENABLED.exists() or "[madvise]" not in ENABLED.read_text(),
        reason="the kernel gives no huge page, or gives them unasked",
    ),
]

ARENAS = """
import sys
MB = 1 << 20

def blocks(megabytes):
    return [b"%d" % n + b"x" * 400 for n in range(megabytes * MB // 448)]

def memory(name):
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) << 10

def huge():
    return memory("AnonHugePages") // MB

def asks_for_huge_pages(address):
    # Whether its mapping does: CPython 3.15 has its own arenas ask.
    with open("/proc/self/smaps") as lines:
        for line in lines:
            name, _, rest = line.partition(" ")
            if "-" in name:
                begin, end = (int(part, 16) for part in name.split("-"))
            elif name == "VmFlags:" and begin <= address < end:
                return "hg" in rest.split()
"""


@pytest.fixture
def run(run_program):
    return lambda source: run_program(ARENAS + source)


def test_a_small_heap_gets_none_and_the_rest_of_a_large_one_does(run):
    out = run("""
_native.use_huge_arenas()
small = blocks(40)
print(huge())
large = blocks(100)
print(50 < huge() <= 80)
print(all(block == b"%d" % n + b"x" * 400 for n, block in enumerate(large)))
""")
    assert out == "0\nTrue\nTrue\n"


def test_nothing_is_huge_in_a_process_that_does_not_ask(run):
    assert run("""
kept = blocks(120)
print(huge())
""") == "0\n"  # fmt: skip


def test_a_child_takes_small_ones_until_it_asks_itself(run):
    out = run("""
_native.use_huge_arenas()
kept = blocks(120)
before = huge()

def allocate():
    private = memory("Private_Dirty")
    more = blocks(20)
    is_small = memory("Private_Dirty") - private < 24 * MB and huge() <= before
    _native.use_huge_arenas()
    large = blocks(120)
    return is_small, huge() > before + 20

print(before > 30)
in_child(allocate)
""")
    assert out == "True\n(True, True)\n"


def test_a_write_in_a_child_copies_small_pages_and_their_mapping_asks_for_no_huge_ones(run):
    out = run("""
_native.use_huge_arenas()
kept = [[n] for n in range(2_000_000)]

def write():
    private = memory("Private_Dirty")
    for n in range(1_900_000, 1_900_100):
        kept[n][0] = None
    return memory("Private_Dirty") - private < MB

print(huge() > 20, asks_for_huge_pages(id(kept[1_900_000])))
gc.freeze()
gc.disable()
in_child(write)
""")
    assert out == "True False\nTrue\n"


def test_memory_that_is_freed_goes_back(run):
    out = run("""
_native.use_huge_arenas()
_native.use_huge_arenas()
kept = blocks(30)
before = memory("Rss")
for _ in range(3):
    large = blocks(200)
    del large
print(memory("Rss") - before < 20 * MB)
""")
    assert out == "True\n"


@pytest.mark.skipif(sys.version_info < (3, 13), reason="pools are not given back there")
def test_a_child_gives_back_free_pools_of_its_own_arenas(run):
    out = run("""
_native.use_huge_arenas()
kept = blocks(120)

def trim():
    own = blocks(40)
    own = [block for n, block in enumerate(own) if n // 400 % 4]  # one of four pools is free
    gc.collect()
    return _native.trim() > 4 * MB

in_child(trim)
""")
    assert out == "True\n"


def test_interpreters_with_a_lock_of_their_own_take_arenas_at_once(run):
    out = run("""
import threading
try: import _interpreters as interpreters
except ImportError: interpreters = None
made = "kept = [b'%d' % n + b'x' * 400 for n in range(100_000)]; assert kept[7][:2] == b'7x'"

def work():
    if interpreters is None: return exec(made, {})
    own = interpreters.create("isolated")
    interpreters.exec(own, made)
    interpreters.destroy(own)

_native.use_huge_arenas()
first = blocks(70)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(all(block == b"%d" % n + b"x" * 400 for n, block in enumerate(first)), huge() > 0)
""")
    assert out == "True True\n"
