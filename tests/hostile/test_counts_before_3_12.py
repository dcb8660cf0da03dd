"""Extensions built for the stable ABI before CPython 3.12 count references of immortal objects.

What they leave behind must be set right before a count of 32 bits wraps: a worker that makes
2^31 such calls between its start and its end still has every object that was sealed.
"""

import os
import sys

import pytest

STEP = 2**29
STEPS = 4  # 2^31 in all
WRAPS_AT_32_BITS = sys.version_info >= (3, 14)

# Every kind of object that is sealed.
OBJECTS = {
    "a constant": "next(c for c in make.__code__.co_consts if c)",
    "a string": "text",
    "a tuple": "pair",
    "a list": "items",
    "a dictionary": "table",
    "a class": "Klass",
    "an instance": "instance",
    "a function": "make",
    "code": "make.__code__",
    "a bound method": "bound",
}

CALLS = ("take", "give", "take_one_by_one")

# For each function of the extension that changes counts objects of their own. The extension adds
# 2^29 references at once; so many calls take ten seconds, and the longest pause between two looks
# at the counts is ten seconds. So each step waits until its counts were set again.
HEAP = f"""
import oldabi, time
def wait_until_restored(objects, work):
    end = time.process_time() + 15
    while any(sys.getrefcount(op) != counts[id(op)] for op in objects):
        assert time.process_time() < end, "nothing looked at the counts"
        work()
source = '''
def make(): return 7654321.5
text = "".join(["a text ", "of its own"])
pair = (text, 1.5)
items = [pair]
table = {{"key": items}}
class Klass:
    def method(self): return self
instance = Klass()
bound = instance.method
'''
sets = {{call: {{"__name__": call}} for call in {CALLS}}}
for names in sets.values(): exec(source, names)
shown = compile(
    "repr([make(), text, pair, items, table, Klass, instance, bound, make.__code__.co_consts])",
    "shown", "eval")
def everything(names):
    fresh = [[float(i)] for i in range(5000)]  # takes the place of whatever was freed
    return eval(shown, names)
pasture.seal()
counts = {{id(op): sys.getrefcount(op) for names in sets.values() for op in names.values()}}
was = {{call: everything(names) for call, names in sets.items()}}
"""

CHECK = f"""
def check(call, name="text"):
    assert everything(sets[call]) == was[call]
    probed = eval(name, sets[call])
    if {WRAPS_AT_32_BITS}:
        assert _native.is_immortal(probed), sys.getrefcount(probed)
        assert 2**31 <= sys.getrefcount(probed) < 2**32, sys.getrefcount(probed)
    return "alive"
"""


@pytest.fixture
def run(run_program, build_extension):
    return lambda source: run_program(HEAP + CHECK + source, path=[build_extension("oldabi")])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="objects are mortal before CPython 3.12")
def test_two_to_the_31st_references_leave_it_alive(run):
    out = run(f"""
names = {[*OBJECTS.values()]}
calls = (("take", oldabi.take), ("give", oldabi.give))
probed = [(change, eval(name, sets[call])) for call, change in calls for name in names]
counts.update((id(op), sys.getrefcount(op)) for _, op in probed)
def work():
    for _ in range({STEPS}):
        for change, op in probed:
            change(op, {STEP})
        wait_until_restored([op for _, op in probed], gc.collect)
    return [(call, check(call, name)) for call, _ in calls for name in names]
in_child(work)
""")
    assert out == f"{[(call, 'alive') for call in ('take', 'give') for _ in OBJECTS]}\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="objects are mortal before CPython 3.12")
def test_automatic_collections_are_enough(run):
    """The program asks for no full collection; the worker makes objects, as workers do."""
    out = run(f"""
def make_objects():
    kept = [[i] for i in range(300_000)]
def work():
    for _ in range({STEPS}):
        for call in {CALLS}:  # the last one takes its time
            getattr(oldabi, call)(sets[call]["text"], {STEP})
        wait_until_restored([sets[call]["text"] for call in {CALLS}], make_objects)
    return [check(call) for call in {CALLS}]
in_child(work)
""")
    assert out == "['alive', 'alive', 'alive']\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="objects are mortal before CPython 3.12")
def test_a_grandchild_of_another_seal_is_as_safe(run):
    out = run(f"""
def half():
    for _ in range({STEPS // 2}):
        for call in ("take", "give"):
            getattr(oldabi, call)(sets[call]["text"], {STEP})
        wait_until_restored([sets[call]["text"] for call in ("take", "give")], gc.collect)
def rest():
    half()
    return check("take"), check("give")
def work():
    half()
    pasture.seal()
    in_child(rest)
    return check("take"), check("give")
in_child(work)
""")
    assert out == "('alive', 'alive')\n" * 2


@pytest.mark.skipif(
    "PASTURE_LONG" not in os.environ, reason="takes minutes: PASTURE_LONG=1 has it run"
)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("call", ["identity(text)", "touch(instance, 'method_of_class')"])
def test_two_to_the_31st_calls_leave_it_alive(run_program, build_extension, call):
    """Call by call: what the loops in C above stand for."""
    out = run_program(
        f"""
{HEAP}
{CHECK}
def work():
    from oldabi import identity, touch
    text, instance = sets["take"]["text"], sets["take"]["instance"]
    for _ in range(2**8):
        for _ in range(2**17):
            {"; ".join([call] * 64)}
        kept = [[i] for i in range(100_000)]
    return check("take"), check("take", "Klass.method_of_class")
in_child(work)
""".replace("instance = Klass()", "    method_of_class = 'a text ' + text\ninstance = Klass()"),
        path=[build_extension("oldabi")],
        timeout_s=3500,
    )
    assert out == "('alive', 'alive')\n"
