"""The program break belongs to any code that calls sbrk; malloc's heap need not end there."""

import pytest

C_LIBRARY = """
import ctypes, threading
library = ctypes.CDLL(None)
library.malloc.restype = library.sbrk.restype = ctypes.c_void_p
library.malloc.argtypes = [ctypes.c_size_t]
library.sbrk.argtypes = [ctypes.c_ssize_t]
library.free.argtypes = [ctypes.c_void_p]
library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
"""

MIB = 1 << 20

FOREIGN = {
    "no other code": "",
    "a small one": "library.sbrk(8192)",
    "a large one": f"library.sbrk({40 * MIB})",
    # The top chunk is then looked for where the header of a freed block of 60,000 bytes remains.
    "one of the size of blocks": "library.sbrk(500 * 60_016)",
    "one larger than the heap": f"library.sbrk({512 * MIB})",
    "one that is not aligned": "library.sbrk(12345)",
    "one that is not mapped any more": f"library.munmap(library.sbrk({256 * MIB}), {256 * MIB})",
    "some": "for _ in range(5): library.sbrk(4096); library.malloc(200_000)",
}

ARENAS = {
    "no other arena": "",
    "arenas of threads": """
gate = threading.Barrier(9)
def hold():
    blocks = [library.malloc(3000) for _ in range(3000)]
    gate.wait()
    for block in blocks[::2]: library.free(block)
threads = [threading.Thread(target=hold) for _ in range(8)]
for thread in threads: thread.start()
gate.wait()
for thread in threads: thread.join()
""",
}


@pytest.mark.parametrize("arenas", ARENAS)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_plugging_takes_holes_and_nothing_else(run_program, foreign, arenas):
    """The top chunk is no hole, however large: that is where children allocate."""
    out = run_program(f"""
{C_LIBRARY}
{ARENAS[arenas]}
blocks = [0] * 2000  # itself below them, so that they end where the heap ends
for place in range(2000): blocks[place] = library.malloc(60_000)
{FOREIGN[foreign]}
for place in range(1000, 2000): library.free(blocks[place])
try:
    plugged = _native.plug_malloc()["bytes"]
except NotImplementedError:
    plugged = 0
print(plugged)
again = [library.malloc(60_000) for _ in range(1000)]
assert all(again)
""")
    # Between blocks of after a foreign one what was freed is a hole indeed.
    assert int(out) < (70 if foreign == "some" else 10) * MIB
