"""Static objects stand at any multiple of 8: one-character strings, one-byte bytes, `()`.

A long container makes the collector remember what it holds by address and find it again.
"""

import pytest

CONTAINERS = {
    "characters": 'list("The quick brown fox jumps over the lazy dog; 0123456789 $%&@!? " * 3000)',
    "characters in a tuple": 'tuple("The quick fox; 0123456789 $%&@!? \\xe4\\xf6\\xfc" * 5000)',
    "characters as values": "{f'key {i}': chr(i % 256) for i in range(200_000)}",
    "identifiers": "(dir(str) + dir(type) + dir(int) + dir(BaseException)) * 1500",
    "keywords of the interpreter": "sys.intern('__init__ __new__ __doc__ self').split() * 60_000",
    "bytes of length one": "[bytes([i % 256]) for i in range(200_000)]",
    "empty values": "[(), b'', '', frozenset(), 0, None, True, ...] * 30_000",
    "small integers": "[i % 260 - 5 for i in range(200_000)]",
    "builtin types": "[*vars(__builtins__).values()] * 2000",
    "code and functions": "[f for m in list(sys.modules.values()) for f in vars(m).values()] * 50",
}

STEPS = {
    "seal": "pasture.seal()",
    "collect": "pasture.collect()",
    "install": "pasture.gc.install(); gc.collect()",
    "side-table": "pasture.seal('side-table'); gc.collect(); in_child(gc.collect)",
    "seal and collect": "pasture.seal(); pasture.collect(); in_child(pasture.collect)",
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_long_container_of_static_objects_is_walked(run_program, container):
    """Each step in a child of its own; the last name printed is that of the one that failed."""
    out = run_program(f"""
        def make(): return {CONTAINERS[container]}
        def walk(name, step):
            print(name, flush=True)
            held = make()
            types = [*map(type, held)]
            assert len(types) > 60_000
            garbage = [weakref.ref(cycle()) for _ in range(50)]
            exec(step, globals())
            return [ref for ref in garbage if ref() is not None], types == [*map(type, held)]
        for name, step in {STEPS!r}.items():
            in_child(lambda: walk(name, step))
    """)
    lines = out.splitlines()
    assert [line for line in lines if line in STEPS] == [*STEPS]
    assert lines.count("([], True)") == len(STEPS)


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_sealed_child_that_outgrows_the_sealed_heap_collects(run_program, container):
    out = run_program(f"""
        def make(): return {CONTAINERS[container]}
        pasture.seal()
        def work():
            held = make()
            types = [*map(type, held)]
            grown = [[i] for i in range(gc.get_freeze_count() + 2_000)]
            dead = [weakref.ref(cycle()) for _ in range(50)]
            gc.collect(); gc.collect()  # the second knows how many objects are left
            assert pasture.gc.history().from_roots, "the child is still small"
            return [ref for ref in dead if ref() is not None], types == [*map(type, held)]
        in_child(work)
    """)
    assert out == "([], True)\n"
