"""Full collections over one heap that two workers share, or over one heap each.

    python cache_heap.py shared|unshared OBJECTS COLLECTIONS stock|out-of-line

For a cache simulator, which knows one process: two workers are two heaps of one process, or
the same heap twice. `shared` builds one heap of OBJECTS lists and collects twice as often;
`unshared` builds two and collects COLLECTIONS times over both. Either visits the same number
of objects. With 0 COLLECTIONS only the heaps are built.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

gc.disable()


def build(objects: int) -> list[list[int]]:
    return [[number] for number in range(objects)]


def main(how: str, objects: int, collections: int, collector: str) -> None:
    collect: Callable[[], int] = gc.collect
    if collector == "out-of-line":
        import pasture.gc

        collect = pasture.gc.collect
    gc.freeze()  # nothing but the heaps is visited
    kept = [build(objects) for _ in range(1 if how == "shared" else 2)]
    for _ in range(collections * (2 if how == "shared" else 1)):
        collect()
    del kept


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
