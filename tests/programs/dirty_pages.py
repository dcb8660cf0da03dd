"""A parent and a worker that dirties pages for one known cause: `dirty_pages.py CAUSE COUNT`.

The worker prints one line of JSON when it is done, with the number of OS pages that it
dirtied, and then waits for the end of its standard input. What is true is found without
pasture: the worker copies the places that it is going to change, changes them, and counts
the pages in which they differ from the copies. The cause `nothing` is the control.
"""

import ctypes
import gc
import json
import mmap
import os
import sys
import time
import weakref

PAGE = 4096
BIG = 3 * PAGE  # an object or table of this size has its own page in any case
KEPT = []  # whatever must outlive a function


def pointer(address):
    return ctypes.c_size_t.from_address(address).value


class Regions:
    """Places in memory, given as address and size, and what they held."""

    def __init__(self, places):
        self.places = list(places)
        self.copies = [ctypes.string_at(*place) for place in self.places]

    def changed_pages(self):
        pages = set()
        for (address, size), copy in zip(self.places, self.copies, strict=True):
            now = ctypes.string_at(address, size)
            if now != copy:
                for i in range(0, size, 8):
                    if now[i : i + 8] != copy[i : i + 8]:
                        pages.add((address + i) // PAGE)
        return len(pages)


def run_in_place(places, change):
    """The usual worker: change what `places` lists, count what differs."""

    def work():
        regions = Regions(places)
        change()
        return regions.changed_pages()

    return work


def reference_count(count):
    objects = [bytes(BIG) for _ in range(count)]

    def change():
        KEPT.extend(objects)

    return run_in_place([(id(o), 8) for o in objects], change)


def gc_header(count):
    lists = [[] for _ in range(count * 60)]
    chosen = lists[::60]
    gc.freeze()
    heads = [(id(o) - 16, 16) for o in lists]

    def change():
        for o in chosen:
            ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(o))

    return run_in_place(heads, change)


def hole(count):
    blocks = [b"\x11" * 440 + b"%8d" % i for i in range(count * 30)]
    size = sys.getsizeof(blocks[0])
    KEPT.append([b for i, b in enumerate(blocks) if i % 30])
    free = {id(b) for i, b in enumerate(blocks) if not i % 30}
    del blocks
    first = min(free) // PAGE
    # Marks made beforehand: what the count itself keeps would fill holes too.
    pages, pools = (bytearray(max(free) // PAGE - first + 2) for _ in range(2))

    def work():
        fresh = [b"\x77" * 440 + b"%8d" % i for i in range(count)]
        KEPT.append(fresh)
        for b in fresh:
            if id(b) in free:
                pages[id(b) // PAGE - first] = 1
                pages[(id(b) + size - 9) // PAGE - first] = 1
                pools[(id(b) // PAGE & ~3) - (first & ~3)] = 1
        work.pools = sum(pools)
        return sum(pages)

    return work


def pool_header(count):
    inner = hole(count)

    def work():
        inner()
        return inner.pools

    return work


def code_counter(count):
    # A remainder of int and float never specializes: its counter goes on counting.
    source = "def f(x, y):\n" + "    x % y\n" * 700
    functions = []
    for _ in range(count):
        names = {}
        exec(source, names)
        functions.append(names["f"])
    for f in functions:
        for _ in range(40):
            f(7, 2.5)
    codes = [f.__code__ for f in functions]
    size = sys.getsizeof(codes[0])

    def change():
        for f in functions:
            f(7, 2.5)

    # Not the head of the object: it has a reference count.
    return run_in_place([(id(c) + 200, size - 200) for c in codes], change)


def dict_places(dicts):
    offset = dict.__basicsize__ - 16
    size = sys.getsizeof(dicts[0]) - dict.__basicsize__ - 16
    return [(pointer(id(d) + offset), size) for d in dicts]


def dict_keys(count):
    dicts = [dict.fromkeys(map(str, range(300))) for _ in range(count)]

    def change():
        for d in dicts:
            d["new"] = None

    return run_in_place(dict_places(dicts), change)


def dict_values(count):
    dicts = [dict.fromkeys(map(str, range(300))) for _ in range(count)]

    def change():
        for d in dicts:
            d["77"] = True

    return run_in_place(dict_places(dicts), change)


def list_storage(count):
    numbers = [None] * (count * PAGE // 8)

    def change():
        for i in range(0, len(numbers), 512):
            numbers[i] = True

    return run_in_place([(pointer(id(numbers) + 24), len(numbers) * 8)], change)


def set_storage(count):
    sets = [set(range(400)) for _ in range(count)]
    table = 16 * 2048

    def change():
        for s in sets:
            s.add(1025)

    return run_in_place([(pointer(id(s) + 40), table) for s in sets], change)


class Wide:
    __slots__ = ("__weakref__", *(f"slot_{i:03}" for i in range(600)))


def object_field(count):
    objects = [Wide() for _ in range(count)]

    def change():
        for o in objects:
            o.slot_300 = None

    return run_in_place([(id(o), Wide.__basicsize__) for o in objects], change)


def weakref_list(count):
    objects = [Wide() for _ in range(count)]
    KEPT.extend([None] * count)

    def change():
        for i, o in enumerate(objects):
            KEPT[i] = weakref.ref(o)

    # From 3.12 on the list begins before the object.
    return run_in_place([(id(o) - 32, Wide.__basicsize__ + 32) for o in objects], change)


def string_hash(count):
    strings = [str(i) * (BIG // 4) for i in range(1000, 1000 + count)]

    def change():
        for s in strings:
            hash(s)

    return run_in_place([(id(s) + 8, 64) for s in strings], change)


def c_allocation(count):
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    blocks = [libc.malloc(ctypes.c_size_t(BIG)) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, BIG)

    def change():
        for block in blocks:
            ctypes.memset(block + PAGE, 2, 64)

    return run_in_place([(block, BIG) for block in blocks], change)


def stack(count):
    # Far below what is in use; the first write makes the kernel extend the mapping.
    count = min(count, 1500)  # of the usual 8 MB
    with open("/proc/self/maps") as lines:
        [line] = [line for line in lines if "[stack]" in line]
    start = int(line.partition("-")[0], 16) - (count + 20) * PAGE
    for page in range(count + 19, -1, -1):
        ctypes.memset(start + page * PAGE, 1, 64)

    def change():
        for page in range(count):
            ctypes.memset(start + page * PAGE, 2, 64)

    return run_in_place([(start, count * PAGE)], change)


def new_memory(count):
    def work():
        fresh = mmap.mmap(-1, count * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for page in range(count):
            fresh[page * PAGE] = 1
        KEPT.append(fresh)
        return count

    return work


class Filler:
    __slots__ = ("a", "b", "c", "d")


class Lamb:
    """As large as a filler, and distinguished from it by its type alone."""

    __slots__ = ("a", "b", "c", "d")


def new_objects(count):
    def work():
        # What is free in the parent's pages goes first.
        KEPT.extend(Filler() for _ in range(20_000))
        places = []
        while len(places) < count * PAGE // 64:
            lamb = Lamb()
            KEPT.append(lamb)
            places.append((id(lamb), Lamb.__basicsize__))
        return len({address // PAGE for address, _ in places})

    return work


def restored(count):
    block = ctypes.create_string_buffer(count * PAGE + PAGE)
    start = ctypes.addressof(block) // PAGE * PAGE + PAGE
    KEPT.append(block)
    ctypes.memset(start, 1, count * PAGE)

    def work():
        for page in range(count):
            ctypes.memset(start + page * PAGE, 2, 8)
            ctypes.memset(start + page * PAGE, 1, 8)
        return count

    return work


def nothing(count):
    return lambda: 0


CAUSES = {
    "nothing": nothing,
    "reference count": reference_count,
    "GC header": gc_header,
    "hole reused": hole,
    "pool header": pool_header,
    "code counter": code_counter,
    "dict keys": dict_keys,
    "dict values": dict_values,
    "list storage": list_storage,
    "set storage": set_storage,
    "object field": object_field,
    "weak-reference list": weakref_list,
    "string hash": string_hash,
    "C allocation": c_allocation,
    "stack": stack,
    "new memory": new_memory,
    "new objects": new_objects,
    "written and restored": restored,
}


def wait_for_parent():
    """Until it sleeps in waitpid: what it writes on the way there makes pages private too."""
    while True:
        with open(f"/proc/{os.getppid()}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "S":
                return
        time.sleep(0.01)


def main():
    cause, count = sys.argv[1], int(sys.argv[2])
    gc.disable()
    work = CAUSES[cause](count)
    if os.environ.get("PASTURE_SNAPSHOT"):
        import pasture

        pasture.seal("stock")
    worker = os.fork()
    if worker:
        os.waitpid(worker, 0)
        os._exit(0)
    wait_for_parent()
    true = work()
    print(json.dumps({"parent": os.getppid(), "worker": os.getpid(), "os_pages": true}), flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
