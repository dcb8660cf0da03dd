"""Page faults that the kernel samples, and pages that it calls a process's own.

Both say something of single OS pages: they are asked here on whatever kernel the tests run on.
"""

import mmap

import pytest

pytestmark = pytest.mark.kernel


def test_every_first_write_to_a_page_is_sampled_with_its_address(run_program):
    out = run_program(
        """
import mmap
from pasture.errors import NoPrivilege
from pasture_tools.proc.page_faults import FaultSampler
memory = mmap.mmap(-1, 64 * mmap.PAGESIZE)
try:
    sampler = FaultSampler((os.getpid(),))
except NoPrivilege as error:
    print("not allowed", error)
    sys.exit()
import ctypes
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
with sampler:
    for page in range(64):
        memory[page * mmap.PAGESIZE] = 1
    faults = sampler.read()
pages = {(fault.address - start) // mmap.PAGESIZE for fault in faults}
print(set(range(64)) <= pages, sampler.lost)
"""
    )
    if out.startswith("not allowed"):
        pytest.skip(out.strip())
    assert out == "True 0\n"


def test_a_byte_written_in_a_child_makes_one_page_its_own(run_program):
    out = run_program(
        """
import mmap
memory = mmap.mmap(-1, 200 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
memory.madvise(15)  # MADV_NOHUGEPAGE
memory.write(b"x" * len(memory))
def body():
    before = private_kib()
    for page in range(0, 200, 2):
        memory[page * mmap.PAGESIZE + 7] = 1
    return private_kib() - before
in_child(body)
"""
    )
    grown_bytes = int(out) * 1024
    assert 100 * mmap.PAGESIZE <= grown_bytes < 120 * mmap.PAGESIZE + 200_000


def test_a_process_that_has_ended_is_passed_over(run_program):
    out = run_program(
        """
from pasture.errors import NoPrivilege
from pasture_tools.proc.page_faults import FaultSampler
gone = os.fork()
if gone == 0: os._exit(0)
os.waitpid(gone, 0)
try:
    with FaultSampler((os.getpid(), gone)) as sampler:
        memory = bytearray(1 << 20)
        print(len(sampler.read()) > 0)
except NoPrivilege as error:
    print("not allowed" if "No such process" not in str(error) else error)
"""
    )
    assert out in ("True\n", "not allowed\n")
