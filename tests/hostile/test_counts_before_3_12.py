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

# So many calls take ten seconds and more; the counts are looked at far more often.
HEAP = """
import oldabi, time
def spend_processor_time():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
def make(): return 7654321.5
text = "".join(["a text ", "of its own"])
pair = (text, 1.5)
items = [pair]
table = {"key": items}
class Klass:
    def method(self): return self
instance = Klass()
bound = instance.method
def everything():
    fresh = [[float(i)] for i in range(5000)]  # takes the place of whatever was freed
    return repr([make(), text, pair, items, table, Klass, instance, bound, make.__code__.co_consts])
pasture.seal()
was = everything()
"""

CHECK = f"""
def check(probed):
    assert everything() == was
    if {WRAPS_AT_32_BITS}:
        assert _native.is_immortal(probed), sys.getrefcount(probed)
        assert 2**31 <= sys.getrefcount(probed) < 2**32, sys.getrefcount(probed)
    return "alive"
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="objects are mortal before CPython 3.12")
@pytest.mark.parametrize("call", ["take", "give"])
def test_two_to_the_31st_references_leave_it_alive(run_program, build_extension, call):
    out = run_program(
        f"""
{HEAP}
{CHECK}
probed = [{", ".join(OBJECTS.values())}]
def work():
    for _ in range({STEPS}):
        for op in probed:
            oldabi.{call}(op, {STEP})
        spend_processor_time()
        gc.collect()
    return [check(op) for op in probed] == ["alive"] * {len(OBJECTS)}
in_child(work)
""",
        path=[build_extension("oldabi")],
    )
    assert out == "True\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="objects are mortal before CPython 3.12")
@pytest.mark.parametrize("call", ["take", "give", "take_one_by_one"])
def test_automatic_collections_are_enough(run_program, build_extension, call):
    """Nobody asks for a full collection; the worker makes objects, as workers do."""
    out = run_program(
        f"""
{HEAP}
{CHECK}
def work():
    for _ in range({STEPS}):
        oldabi.{call}(text, {STEP})
        spend_processor_time()
        kept = [[i] for i in range(300_000)]
    return check(text)
in_child(work)
""",
        path=[build_extension("oldabi")],
    )
    assert out == "alive\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="objects are mortal before CPython 3.12")
@pytest.mark.parametrize("call", ["take", "give"])
def test_a_grandchild_of_another_seal_is_as_safe(run_program, build_extension, call):
    out = run_program(
        f"""
{HEAP}
{CHECK}
def work():
    for _ in range({STEPS // 2}):
        oldabi.{call}(text, {STEP})
        spend_processor_time()
        gc.collect()
    pasture.seal()
    in_child(rest)
    return check(text)
def rest():
    for _ in range({STEPS // 2}):
        oldabi.{call}(text, {STEP})
        spend_processor_time()
        gc.collect()
    return check(text)
in_child(work)
""",
        path=[build_extension("oldabi")],
    )
    assert out == "alive\nalive\n"


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
    for _ in range(2**8):
        for _ in range(2**17):
            {"; ".join([call] * 64)}
        kept = [[i] for i in range(100_000)]
    return check(text), check(Klass.method_of_class)
in_child(work)
""".replace("instance = Klass()", "    method_of_class = 'a text ' + text\ninstance = Klass()"),
        path=[build_extension("oldabi")],
        patience_s=3500,
    )
    assert out == "('alive', 'alive')\n"
