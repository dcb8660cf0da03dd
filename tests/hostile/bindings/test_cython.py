"""Objects of Cython: sources/cython_kinds.pyx, for this version and for the stable ABI."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)  # a compiler takes its time on a busy machine

SOURCE = Path(__file__).parent / "sources" / "cython_kinds.pyx"

CLASSES = [
    "Plain",
    "WithoutCollector",
    "WithoutClear",
    "FromFreeList",
    "InTrashcan",
    "WithDictionary",
    "WithEnd",
    "Derived",
    "Ordinary",
]
KINDS = {name: f"make = kinds.{name}" for name in CLASSES} | {
    "class in Python": "class Mine(kinds.Plain): pass\nmake = Mine",
    "class with slots": "class Mine(kinds.Derived): __slots__ = ('one', 'two')\nmake = Mine",
    "memoryview": """
make, hold, held = kinds.make_view, kinds.hold_by_view, kinds.held_by_view
""",
    "closure": """
make = kinds.make_closure
def hold(one, value): one(value)
def held(one): return one()
""",
    "attribute of a function": """
make = kinds.make_closure
def hold(one, value): one.value = value
def held(one): return one.value
""",
    "generator": """
def make(): made = kinds.generator(); next(made); return made
def hold(one, value): one.send((value,))
held = next
""",
    "generator in a generator": """
def make(): made = kinds.delegating(); next(made); return made
def hold(one, value): one.send((value,))
held = next
""",
    "coroutine": """
class Step:
    def __init__(self, value): self.value = value
    def __await__(self): return (yield self.value)
def make(): made = kinds.coroutine(Step); made.send(None); return made
def hold(one, value): one.send((value,))
def held(one): return one.send(None)
""",
    "asynchronous generator": """
def drive(step):
    try: step.send(None)
    except StopIteration as end: return end.value
def make(): made = kinds.asynchronous(); drive(made.__anext__()); return made
def hold(one, value): drive(one.asend((value,)))
def held(one): return drive(one.asend(None))
""",
}

BUILDS = {"this version": [], "stable ABI of 3.11": ["-DPy_LIMITED_API=0x030B0000"]}


@pytest.fixture(scope="session", params=BUILDS)
def kinds(request, run_cython, build_binding, tmp_path_factory) -> Path:
    source = tmp_path_factory.mktemp("source") / "cython_kinds.c"
    run_cython(SOURCE, source)
    return build_binding("cython_kinds", ["-xc", *BUILDS[request.param], source])


@pytest.mark.parametrize("kind", KINDS)
def test_objects_of_cython_live_through_everything(live_through, kinds, kind):
    live_through(f"import cython_kinds as kinds\n{KINDS[kind]}", [kinds])


CALLS = {
    "generator": """
def call(function):
    running = kinds.call_in_generator(function)
    assert next(running) == [function, "local"]
    return running.send("go")
""",
    "closure": "call = kinds.call_in_closure",
    "memoryview": "call = kinds.call_beside_view",
}


@pytest.mark.parametrize("place", CALLS)
def test_a_seal_inside_of_code_of_cython(seal_inside, kinds, place):
    seal_inside(f"import cython_kinds as kinds\n{CALLS[place]}", [kinds])
