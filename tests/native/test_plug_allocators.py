"""Plugged holes of allocators that take the place of glibc's, preloaded as a container does it.

Which one is found, and that a seal plugs, is tested on each interpreter; what is then done depends
on the allocator alone.
"""

import os
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    "x86_64-linux-gnu" not in sysconfig.get_config_var("SOABI"),
    reason="these are built for glibc on x86-64",
)

SERVICES = Path(__file__).parents[2] / "tools" / "services"
ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")


@pytest.fixture(scope="module")
def preloading() -> Callable[..., dict[str, str]]:
    """The environment that has a program use the allocators of these names, the first one's malloc.

    Skips the test where one cannot be had.
    """

    def prepare(*names: str) -> dict[str, str]:
        paths = []
        for name in names:
            done = subprocess.run([str(SERVICES), name], capture_output=True, text=True)
            if done.returncode != 0:
                pytest.skip(f"no {name}: {done.stderr.strip().splitlines()[-2]}")
            paths.append(done.stdout.strip())
        return os.environ | {"LD_PRELOAD": ":".join(paths)}

    return prepare


@pytest.mark.once
@pytest.mark.parametrize("name", ALLOCATORS)
def test_no_block_is_handed_out_beside_older_ones_after_the_holes_are_plugged(
    run_program, preloading, name
):
    out = run_program(
        """
def plug(size):
    def os_pages(objects):
        return {(id(o) + at) >> 12 for o in objects for at in (0, size)}
    def beside(objects):
        return sum(bool(os_pages([o]) & shared) for o in objects)
    kept = [bytes(size) for _ in range(4000)]
    del kept[::2]
    shared = os_pages(kept)
    reused = [bytes(size) for _ in range(400)]
    assert beside(reused) > 50, "the comb has no holes: the test shows nothing"
    del reused
    plugged = _native.plug_malloc()
    assert plugged["bytes"] > 1000 * size, plugged
    fresh = [bytes(size) for _ in range(1000)]
    return size, plugged["allocator"], beside(fresh) <= 10 or beside(fresh)
for size in (600, 1500, 6000): in_child(lambda: plug(size))
""",
        env=preloading(name),
    )
    assert out == "".join(f"{(size, name, True)}\n" for size in (600, 1500, 6000))


# Of the sizes that containers and texts have in a program, every second one is freed.
WORKLOAD = """
import dataclasses, random, pasture
random.seed(1)
def some(count):
    made = [{"key%d" % j: j for j in range(random.randrange(1, 30))} for _ in range(count)]
    made += [bytes(random.randrange(1, 3000)) for _ in range(count)]
    return made + [[None] * random.randrange(1, 400) for _ in range(count)]
heap = some(4000)
random.shuffle(heap)
del heap[::2]
"""


@pytest.mark.once
@pytest.mark.parametrize("name", ALLOCATORS)
def test_a_child_has_less_memory_of_its_own_where_its_parents_holes_are_plugged(
    run_program, preloading, name
):
    def private_kib_of_child(leave_out: str) -> int:
        return int(
            run_program(
                WORKLOAD
                + f"""
policy = pasture.POLICIES["seal"]
heap_steps = tuple(step for step in policy.heap if step != {leave_out!r})
assert pasture.seal(dataclasses.replace(policy, heap=heap_steps)).sealed
def work():
    live = some(500)
    return private_kib()
in_child(work)
""",
                env=preloading(name),
            )
        )

    assert private_kib_of_child("") + 500 < private_kib_of_child("plug-malloc")


@pytest.mark.once
@pytest.mark.parametrize("name", ALLOCATORS)
def test_children_free_what_their_parent_allocated_and_fork_on(run_program, preloading, name):
    out = run_program(
        WORKLOAD
        + """
import threading
def churn(seed):
    own = random.Random(seed)
    alive = {}
    for _ in range(2000):
        alive[own.randrange(500)] = own.randrange(256).to_bytes() * own.randrange(1, 20_000)
    assert all(text.count(text[0]) == len(text) for text in alive.values())
def work(generation=0):
    size = len(heap)
    random.shuffle(heap)
    del heap[: size // 3]
    threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(3)]
    for thread in threads: thread.start()
    churn(9)
    for thread in threads: thread.join()
    whole = [item for item in heap if type(item) is not dict]
    assert all(item[0] in (0, None) and item.count(item[0]) == len(item) for item in whole)
    if generation < 2:
        report = pasture.seal()
        assert report.sealed, report
        in_child(lambda: work(generation + 1))
    return "worked"
pasture.seal()
in_child(work)
""",
        env=preloading(name),
    )
    assert out == "worked\n" * 3


@pytest.mark.parametrize("name", ALLOCATORS)
def test_the_report_says_which_allocator_was_found_and_what_was_done(run_program, preloading, name):
    out = run_program("import pasture; print(pasture.seal())", env=preloading(name))
    assert f"plug-malloc: {name}: free pages given back, free blocks filled" in out


@pytest.mark.parametrize("names", [("jemalloc", "mimalloc"), ("mimalloc", "tcmalloc", "jemalloc")])
def test_of_several_that_are_loaded_the_one_that_serves_malloc_is_found(
    run_program, preloading, names
):
    """The functions of all of them can be found by name."""
    out = run_program("print(_native.plug_malloc()['allocator'])", env=preloading(*names))
    assert out == f"{names[0]}\n"


def test_one_that_is_loaded_and_serves_nothing_is_not_taken_for_it(run_program, preloading):
    library = preloading("mimalloc")["LD_PRELOAD"]
    out = run_program(f"""
import ctypes
ctypes.CDLL({library!r}, ctypes.RTLD_GLOBAL)
print(_native.plug_malloc()["allocator"])
""")
    assert out == "glibc\n"
