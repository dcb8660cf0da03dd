"""What `pasture doctor` says of huge pages is what this kernel does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from running import completed

pytestmark = pytest.mark.once

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
WRITES = 8
PROGRAM = f"""
import mmap, os, re
size = 32 << 20
region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
region.madvise(mmap.MADV_HUGEPAGE)
for at in range(0, size, 4096):
    region[at] = 1

def figures():
    best = {{}}
    for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", open("/proc/self/smaps").read()):
        found = dict(re.findall(r"(?m)^(\\w+): +(\\d+) kB", block))
        if int(found.get("Size", 0)) >= size >> 10:
            best = found
    return best

huge = int(figures()["AnonHugePages"])
if os.fork():
    os.wait()
else:
    for n in range({WRITES}):
        region[(8 << 20) + n * (2 << 20) + 12345] = 2
    print(huge, figures()["Private_Dirty"])
"""


@pytest.mark.skipif(
    not ENABLED.exists() or "[never]" in ENABLED.read_text(), reason="there are no huge pages"
)
def test_a_write_to_a_shared_huge_page_copies_one_small_page() -> None:
    done = completed([sys.executable, "-c", PROGRAM], check=True)
    huge_kib, private_kib = map(int, done.stdout.split())
    if not huge_kib:
        pytest.skip("the kernel had no huge page free")
    assert private_kib == WRITES * 4
