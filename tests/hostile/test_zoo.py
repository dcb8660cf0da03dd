"""Objects of an extension that break what one may believe of all objects (extensions/zoo.c).

They are made by the thousand, held by short and by long containers, alone and in cycles, and
then live through collections, the seal, children of it, and the end of the process.
"""

import sys

from pasture import _native

CHECK_BUILD = hasattr(_native, "fail_scratch_after")
DEBUG_BUILD = hasattr(sys, "gettotalrefcount")
HAVE_GC = 1 << 14
MANAGED_WEAKREF = 1 << 3
MANAGED_DICT = 1 << 4
ITEMS_AT_END = 1 << 23

NEW = sys.version_info >= (3, 12)

KINDS = {
    "plain": "make = zoo.Plain",
    "from malloc": "make = zoo.FromMalloc",
    "at 0 mod 16": "def make(): zoo.set_offset(0); return zoo.Placed()",
    "at 4 mod 16": "def make(): zoo.set_offset(4); return zoo.Placed()",
    "at 8 mod 16": "def make(): zoo.set_offset(8); return zoo.Placed()",
    "at 12 mod 16": "def make(): zoo.set_offset(12); return zoo.Placed()",
    "without tp_clear": "make = zoo.NoClear",
    "deaf traverse": "make = zoo.Deaf",
    "with items": "make = lambda: zoo.Items(7)",
    "with many items": "make = lambda: zoo.Items(300)",
    "negative size": "make = lambda: zoo.Negative(9)",
    "class in Python": "class Derived(zoo.Plain): pass\nmake = Derived",
    "class with slots": "class Derived(zoo.Plain): __slots__ = ('one', 'two')\nmake = Derived",
    "class of a placed one": "class Derived(zoo.Placed): __slots__ = ()\nmake = zoo.Placed",
    "heap type": f"make = zoo.make_type('zoo.Heap', {HAVE_GC}, 0)",
    "heap type with items": f"""
kind = zoo.make_type("zoo.Heap", {HAVE_GC}, 8)
def make(): return kind(5)
""",
    "no container but a class of it": "class Derived(zoo.NoContainer): pass\nmake = Derived",
    "with a metaclass": """
class Meta(type):
    def __hash__(self): raise TypeError("not hashable")
    def __eq__(self, other): return NotImplemented
class Derived(zoo.Plain, metaclass=Meta): pass
make = Derived
""",
}
if NEW:
    flags = HAVE_GC | MANAGED_DICT | MANAGED_WEAKREF
    # Before 3.13 such a type cannot show the collector its dictionary through public names.
    if sys.version_info >= (3, 13):
        KINDS["managed dictionary"] = (
            f"make = zoo.make_type('zoo.Managed', {HAVE_GC | MANAGED_DICT}, 0)"
        )
    KINDS["items at the end"] = (
        f"kind = zoo.make_type('zoo.End', {HAVE_GC | ITEMS_AT_END}, 8)\nmake = lambda: kind(5)"
    )

FOUND_BY_NEITHER = "no container but a class of it"
"""What it holds is seen by neither collector."""

# Objects of all kinds in turn, but for the cycles: what a kind keeps alive is its own.
LIFE = """
import itertools, zoo
def maker(source):
    names = {"zoo": zoo}
    exec(source, names)
    return names["make"]
makers = {name: maker(source) for name, source in KINDS.items()}
def some(count):
    return [make() for _, make in zip(range(count), itertools.cycle(makers.values()))]
def aged(objects):
    gc.collect(0); gc.collect(1)
    return objects
def check_collection(full):
    gc.disable()
    full()
    kept = some(5000)
    for number, one in enumerate(kept): one.hold([one, number])
    cycles = {name: [make() for _ in range(2500 // len(makers))] for name, make in makers.items()}
    for each in cycles.values():
        for one in each: one.hold([one, each[-1]])
    short = [(make(), make()) for make in makers.values() for _ in range(10)]
    refs = [weakref.ref(one.held()[0].__class__) for one in kept[:1]]
    nodes = {name: [cycle() for _ in range(10)] for name in makers}
    for name in makers:
        for node, one in zip(nodes[name], cycles[name]): node.one = one; one.held().append(node)
    dead = {name: [weakref.ref(node) for node in each] for name, each in nodes.items()}
    aged(None)
    full()
    assert all(ref() is not None for each in dead.values() for ref in each)
    nodes.clear(); cycles.clear(); del node, one, each
    full()
    found = {name: all(ref() is None for ref in each) for name, each in dead.items()}
    assert found == {name: name != FOUND_BY_NEITHER for name in makers}, found
    assert all(one.held()[0] is one and one.held()[1] == number
               for number, one in enumerate(kept)), "a live object is gone"
    pairs = len([pair for pair in short if pair[0] is not pair[1]])
    assert pairs == 10 * len(makers)
    gc.enable()
    return "lives"
print(check_collection(gc.collect))
print(check_collection(pasture.collect))
held = some(10_000)
for number, one in enumerate(held[:3000]): one.hold([one, number])
pasture.gc.install()
print(check_collection(gc.collect))
pasture.gc.uninstall()
sealed = pasture.seal()
print(sealed.sealed)
def again():
    assert all(one.held() == [one, number] for number, one in enumerate(held[:3000]))
    return check_collection(gc.collect), check_collection(lambda: pasture.collect(frozen=True))
in_child(again)
def outgrow():
    more = some(gc.get_freeze_count() + 2_000)
    gc.collect(); gc.collect()  # the second knows how many objects are left
    assert pasture.gc.history().from_roots, "the child is still small"
    return again()
in_child(outgrow)
print(pasture.seal().sealed)
in_child(again)
"""

LIVED = [
    *["lives"] * 3,
    "True",
    "('lives', 'lives')",
    "('lives', 'lives')",
    "True",
    "('lives', 'lives')",
]


def test_all_live_through_collections_the_seal_and_its_children(run_program, build_extension):
    def live(kinds):
        source = f"KINDS = {kinds!r}\nFOUND_BY_NEITHER = {FOUND_BY_NEITHER!r}\n{LIFE}"
        return run_program(source, path=[build_extension("zoo")]).splitlines()

    try:
        assert live(KINDS) == LIVED
    except AssertionError:
        for kind, source in KINDS.items():
            assert live({kind: source}) == LIVED, f"{kind}, alone"
        raise


STEPS = {
    "collect": "pasture.collect(); gc.collect(); pasture.collect(frozen=True)",
    "install": "pasture.gc.install(); gc.collect()",
    "seal and children, one of which outgrows": """
pasture.seal()
in_child(gc.collect)
in_child(pasture.collect)
def outgrow():
    more = [[i] for i in range(gc.get_freeze_count() + 2_000)]
    gc.collect(); gc.collect()  # the second knows how many objects are left
    assert pasture.gc.history().from_roots, "the child is still small"
in_child(outgrow)
""",
}

ODDITIES = {
    "static objects in a long list": """
held = zoo.static_objects() * 500
def check(): return all(type(one) is zoo.NoContainer for one in held)
""",
    "static objects that hold": """
held = zoo.static_objects() * 500
for number, one in enumerate(held[:200]): one.hold([number])
def check(): return [one.held() for one in held[:200]] == [[i] for i in range(200)]
""",
    "one that shows nothing": """
held = [zoo.Silent() for _ in range(3000)]
for number, one in enumerate(held): one.hold({"number": number, "self": one})
def check(): return all(one.held()["number"] == i for i, one in enumerate(held))
""",
    "two references to one object": """
held = [zoo.Plain() for _ in range(3000)]
for number, one in enumerate(held): one.hold_twice([one, number])
def check(): return all(one.held()[1] == i for i, one in enumerate(held))
""",
    "one that holds itself twice": """
held = [zoo.Plain() for _ in range(3000)]
for one in held: one.hold_twice(one)
def check(): return all(one.held() is one for one in held)
""",
    "one that shows what it borrows": """
targets = [[i] for i in range(3000)]
more = list(targets)
held = [zoo.Borrower() for _ in range(3000)]
for one, target in zip(held, targets): one.borrow(target)
def check(): return targets == [[i] for i in range(3000)] == more
""",
    "those that will not stay dead": """
def litter():
    for _ in range(3000):
        one = zoo.Phoenix(); one.hold([one])
litter()
def check():
    gc.collect()
    return len(zoo.graveyard) == 3000 and all(one.held()[0] is one for one in zoo.graveyard)
""",
    "untracked containers": """
held = [[i, {i: i}] for i in range(3000)]
for one in held: zoo.untrack(one)
def check(): return held == [[i, {i: i}] for i in range(3000)]
""",
    "tracked again": """
held = [[i, [i]] for i in range(3000)]
for one in held: zoo.untrack(one)
def check():
    for one in held:
        if not gc.is_tracked(one): zoo.track(one)
    gc.collect()
    return held == [[i, [i]] for i in range(3000)]
""",
    "a type that is no container at times": """
held = [zoo.Plain() for _ in range(3000)]
for number, one in enumerate(held): one.hold([number])
zoo.set_has_gc(zoo.Plain, False)
def check():
    zoo.set_has_gc(zoo.Plain, True)
    gc.collect()
    found = [one.held() for one in held] == [[i] for i in range(3000)]
    zoo.set_has_gc(zoo.Plain, False)
    return found
""",
    "counts at thresholds": """
counts = [2**29, 2**30 - 1, 2**30, 2**30 + 1, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1,
          2**31 + 2**30, 2**32 - 2, 2**32 - 1]
held = [[zoo.Plain(), number] for number in range(len(counts) * 200)]
for number, one in enumerate(held):
    one[0].hold([one[0], number]); zoo.set_count(one[0], counts[number % len(counts)])
def check():
    gc.collect(); pasture.collect()
    return all(one[0].held() == [one[0], i] for i, one in enumerate(held))
""",
    "counts at thresholds, of strings": """
counts = [2**29, 2**30 - 1, 2**30, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 2**30, 2**32 - 2, 2**32 - 1]
held = ["".join(["text ", str(number)]) for number in range(len(counts) * 300)]
for number, one in enumerate(held): zoo.set_count(one, counts[number % len(counts)])
def check(): return held == [f"text {i}" for i in range(len(held))]
""",
    "garbage of a huge count": """
def litter():
    for _ in range(3000):
        one = zoo.Plain(); one.hold([one]); zoo.set_count(one, 2**30)
litter()
def check(): return gc.collect() >= 0 and pasture.collect() >= 0
""",
    "classes that change": """
class First: pass
class Second: __slots__ = ("__dict__", "__weakref__")
class Third(First): pass
held = [First() for _ in range(3000)]
for number, one in enumerate(held):
    one.number = [number]
    if number % 2: one.__class__ = Third
def check():
    for one in held: one.__class__ = Third if type(one) is First else First
    gc.collect()
    return all(one.number == [i] for i, one in enumerate(held))
""",
    "dictionaries that replace those of instances": """
class Plain: pass
held = [Plain() for _ in range(3000)]
for number, one in enumerate(held):
    one.number = [number]
    if number % 3 == 0: one.__dict__ = {"number": [number], 7: one}
    if number % 3 == 1: vars(one)[number] = one
def check(): return all(one.number == [i] for i, one in enumerate(held))
""",
    "instances of many layouts": """
class Plain: pass
held = [Plain() for _ in range(3000)]
for number, one in enumerate(held):
    one.number = [number]
    for extra in range(number % 60): setattr(one, f"attribute_{extra}", [one])
    if number % 5 == 0: del one.number; one.number = [number]
def check(): return all(one.number == [i] for i, one in enumerate(held))
""",
    "suspended generators": """
def generator(number):
    local = [number]
    def inner(): return local
    try:
        got = yield local
        yield inner(), got
    finally:
        del local
async def coroutine(): pass
held = [generator(i) for i in range(3000)]
for one in held: next(one)
waiting = [coroutine() for _ in range(100)]
for one in waiting: one.close()
def check():
    copies = [one.gi_frame.f_locals["local"] for one in held]
    return copies == [[i] for i in range(3000)]
""",
    "frames that are kept": """
def frame(number):
    local = [number, sys._getframe()]
    return local[1]
held = [frame(i) for i in range(3000)]
tracebacks = []
def fail(depth, local):
    if depth: fail(depth - 1, [local])
    raise ValueError
for number in range(300):
    try: fail(20, [number])
    except ValueError as error: tracebacks.append(error)
def check():
    return (all(one.f_locals["number"] == i for i, one in enumerate(held))
            and all(one.__traceback__.tb_frame for one in tracebacks))
""",
    "a chain as deep as it goes": """
held = []
for _ in range(150_000): held = [held]
pair = ()
for _ in range(150_000): pair = (pair, 1.5)
class Plain: pass
first = last = Plain()
for _ in range(150_000): last.next = Plain(); last = last.next
def check():
    depth, at = 0, held
    while at: at = at[0]; depth += 1
    at = first
    while at is not last: at = at.next
    return depth == 150_000
""",
    "wide containers": """
held = [[i] for i in range(100_000)]
table = {str(i): [i] for i in range(50_000)}
group = {(i, str(i)) for i in range(50_000)}
def check(): return len(held) == 100_000 and table["7"] == [7] and (3, "3") in group
""",
}


ENDED_BY_A_DEBUG_BUILD = ("one that shows what it borrows", "counts at thresholds, of strings")
"""CPython's own assertions end a process that has these."""


def exists_here(oddity):
    if oddity in ("counts at thresholds", "garbage of a huge count"):
        return NEW and not DEBUG_BUILD  # before, counts have no meaning beyond the number
    if oddity in ENDED_BY_A_DEBUG_BUILD:
        return not DEBUG_BUILD
    # The verifier ends a process whose lists hold what is no container.
    return oddity != "a type that is no container at times" or not CHECK_BUILD


def test_what_is_odd_stays_as_it_is(run_each, build_extension):
    programs = {
        oddity: f"""
import zoo
{source}
gc.collect(0); gc.collect(1)
def live(step):
    exec(step, globals())
    assert check()
    in_child(check)
    return check()
for name, step in {STEPS!r}.items():
    print(name, flush=True)
    in_child(lambda: live(step))
print("end", flush=True)
os._exit(0)  # some of them would not end well without pasture either
"""
        for oddity, source in ODDITIES.items()
        if exists_here(oddity)
    }
    outputs = run_each(programs, path=[build_extension("zoo")])
    assert outputs.keys() == programs.keys()
    for oddity, out in outputs.items():
        assert out.endswith("True\nend\n") and "False" not in out, (oddity, out)


def test_a_buffer_that_no_container_holds_is_given_back(run_program, build_extension):
    out = run_program(
        """
import zoo
held = [zoo.Viewer(bytearray(10)) for _ in range(3)]
below = bytearray(10)
held.append(zoo.Viewer(below))
pasture.seal()
def work():
    held.clear()
    below.append(1)
    return len(below)
in_child(work)
""",
        path=[build_extension("zoo")],
    )
    assert out == "11\n"
