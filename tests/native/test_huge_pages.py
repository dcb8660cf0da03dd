"""Memory put into huge pages: what is nearly full and the process's own, and nothing else."""

from pathlib import Path

import pytest

SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")


def can_collapse() -> bool:
    """Whether this kernel collapses ranges of 2 MB (Linux 6.1)."""
    release = Path("/proc/sys/kernel/osrelease").read_text().split(".")
    is_new = (int(release[0]), int(release[1])) >= (6, 1)
    return is_new and SIZE.exists() and int(SIZE.read_text()) == 1 << 21


pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not can_collapse(), reason="the kernel collapses no 2 MB"),
]

RANGES = """
import ctypes, mmap
HUGE = 1 << 21
memory = mmap.mmap(-1, 9 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
first = -start % HUGE  # of eight whole ranges

def fill(number, pages=512):
    for page in range(pages):
        memory[first + number * HUGE + page * 4096] = 1 + number

def huge_ranges():
    # How many of ours are in huge pages.
    kib, ours = 0, False
    with open("/proc/self/smaps") as lines:
        for line in lines:
            name, _, rest = line.partition(" ")
            if "-" in name:
                begin, end = (int(part, 16) for part in name.split("-"))
                ours = begin < start + len(memory) and end > start
            elif ours and name == "AnonHugePages:":
                kib += int(rest.split()[0])
    return kib // 2048

def collapse(min_ranges=1, limit_ns=10**11):
    return _native.collapse(HUGE, min_ranges, limit_ns)
"""


@pytest.fixture
def run(run_program):
    return lambda source: run_program(RANGES + source)


def test_full_ranges_are_collapsed_and_hold_what_they_held(run):
    out = run("""
for number in range(8):
    fill(number)
before, counts = huge_ranges(), collapse()
print(before, huge_ranges(), counts["collapsed"] >= 8, counts["refused"])
print(all(memory[first + n * HUGE + p * 4096] == 1 + n for n in range(8) for p in range(512)))
in_child(lambda: sum(memory[first:first + 8 * HUGE:4096]))
""")
    assert out == f"0 8 True 0\nTrue\n{512 * 36}\n"


def test_ranges_with_many_empty_pages_and_those_of_a_child_are_left(run):
    out = run("""
fill(0, 512 - 32)
fill(1, 512 - 33)
fill(2)
print(collapse()["refused"], huge_ranges())
for number in range(3, 8):
    fill(number)
reader, writer = os.pipe()
if os.fork() == 0:
    os.close(writer)
    os.read(reader, 1)
    os._exit(0)
collapse()
print(huge_ranges())
os.close(writer)
os.wait()
collapse()
print(huge_ranges())
""")
    assert out == "0 2\n2\n7\n"


def test_too_few_ranges_and_those_after_the_time_limit_are_left(run):
    out = run("""
for number in range(8):
    fill(number)
found = collapse(min_ranges=10**6)
print(found["ranges"] >= 8, found["collapsed"], huge_ranges())
print(collapse(limit_ns=0)["collapsed"], huge_ranges())
try:
    _native.collapse(3, 1, 1)
except ValueError as error:
    print(error)
""")
    assert out == "True 0 0\n0 0\nno size of a page\n"


@pytest.mark.parametrize("number", [-1, 0, 2048, 3 << 20, (1 << 21) + 1])
def test_what_is_no_size_of_a_page_is_refused(run_program, number):
    out = run_program(f"""
try: _native.collapse({number}, 1, 10**9)
except ValueError as error: print(error)
""")
    assert out == "no size of a page\n"


def test_a_size_that_the_kernel_does_not_collapse_changes_nothing(run):
    out = run("""
fill(0)
counts = _native.collapse(1 << 16, 1, 10**11)
print(counts["ranges"] > 0, huge_ranges(), {memory[first + page * 4096] for page in range(512)})
""")
    assert out == "True 0 {1}\n"


def test_a_mapping_of_more_than_64_gib_is_left_out(run):
    out = run("""
MAP_NORESERVE = 0x4000
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
large = mmap.mmap(-1, 65 << 30, flags=flags)
middle = 32 << 30
for page in range(1024): large[middle + page * 4096] = 1
fill(0)
print(collapse()["collapsed"] >= 1, huge_ranges())
large.close()
""")
    assert out == "True 1\n"
