"""Code that a tool has watched: tracing, profiling, coverage, `sys.monitoring`.

An instruction that loads a constant adds to its count; it must not do so for ever where the
constant is immortal. 2^30 additions wrap the count of CPython 3.14 and free the constant in
use; here they are counted over a smaller number of loads, and there must be none.
"""

import os
import sys

import pytest

LOADS = 20_000
WRAPS = 2**30

TOOLS = {
    "cProfile": """
import cProfile
profile = cProfile.Profile()
start, stop = profile.enable, profile.disable
""",
    "setprofile": """
def start(): sys.setprofile(lambda *_: None)
def stop(): sys.setprofile(None)
""",
    "settrace": """
def tracer(*_): return tracer
def start(): sys.settrace(tracer)
def stop(): sys.settrace(None)
""",
    "a debugger": """
import bdb
debugger = bdb.Bdb()
def start(): debugger.reset(); sys.settrace(debugger.trace_dispatch)
def stop(): sys.settrace(None)
""",
    "monitoring of calls": """
events = sys.monitoring.events
sys.monitoring.use_tool_id(3, "test")
def start(): sys.monitoring.set_events(3, events.PY_START | events.CALL)
def stop(): sys.monitoring.set_events(3, 0)
""",
    "monitoring of lines": """
events = sys.monitoring.events
sys.monitoring.use_tool_id(3, "test")
def start(): sys.monitoring.set_events(3, events.LINE)
def stop(): sys.monitoring.set_events(3, 0)
""",
    "monitoring of instructions": """
events = sys.monitoring.events
sys.monitoring.use_tool_id(3, "test")
def start(): sys.monitoring.set_events(3, events.INSTRUCTION | events.BRANCH)
def stop(): sys.monitoring.set_events(3, 0)
""",
    "nothing": "def start(): pass\ndef stop(): pass\n",
}

WORK = """
# Constants of its own, which no other code has; each is loaded in a place of its own.
def loads(count, box=[None]):
    for _ in range(count):
        box[0] = 7654321.5; a, b = b"constant bytes", "constant text %s"
        box[0] = (1, 2.25, "in a tuple")
        box[0] = [a, b, 1234567890123, 7654322.5]
        if box[0] is frozenset({"never"}): box[0] = 7654323.5
        yield 7654324.5
def run(count):
    for _ in loads(count): pass
def constants():
    return [c for c in loads.__code__.co_consts if c is not None]
def counts():
    return [sys.getrefcount(each) for each in constants()]
def drift(count):
    before = counts(); run(count); after = counts()
    return max(abs(b - a) for a, b in zip(before, after))
run(50)
"""

ORDERS = {
    "before the seal": "start(); run(50); stop(); run(50); pasture.seal(); body = drift_of",
    "during the seal": "start(); run(50); pasture.seal(); stop(); body = drift_of",
    "before, during and after": "start(); run(50); pasture.seal(); body = drift_of",
    "in the child": """
pasture.seal()
def body():
    start(); run(50); first = drift_of(); stop(); run(50)
    return max(first, drift_of())
""",
    "before, and in the child again": """
start(); run(50); stop(); run(50); pasture.seal()
def body():
    start(); run(50); first = drift_of(); stop(); run(50)
    return max(first, drift_of())
""",
    "in the parent, sealed twice": """
pasture.seal(); start(); run(50); stop(); run(50); pasture.seal(); body = drift_of
""",
}


def skip_if_unknown(tool: str) -> None:
    if "monitoring" in tool and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring came with CPython 3.12")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="objects are mortal before CPython 3.12")
@pytest.mark.parametrize("tool", TOOLS)
def test_loading_its_constants_leaves_their_counts_in_range(run_program, tool):
    """Each order in a child of its own, forked before anything is sealed or watched."""
    skip_if_unknown(tool)
    out = run_program(f"""
{TOOLS[tool]}
{WORK}
def drift_of(): return drift({LOADS})
def watch(name, order):
    print(name)
    exec(order, globals())
    in_child(body)
    return "watched"
for name, order in {ORDERS!r}.items():
    in_child(lambda: watch(name, order))
""")
    lines = out.splitlines()
    assert lines[::3] == [*ORDERS] and lines[2::3] == ["watched"] * len(ORDERS)
    for name, drift in zip(ORDERS, map(int, lines[1::3]), strict=True):
        # What comes of starting, stopping and counting; not of each of the loads.
        assert drift < 200, f"{name}: {WRAPS / drift * LOADS:.2g} loads free a constant in use"


@pytest.mark.parametrize("place", ["in_child(work)", "print(work())"])
def test_code_that_runs_while_it_seals_leaves_the_counts_of_its_constants(run_program, place):
    """The frames that are running belong to no list of the collector."""
    out = run_program(f"""
        sys.intern("shared constant text")
        def outer(box=[None]):
            def loads(count):
                for _ in range(count):
                    box[0] = 7654321.5; box[0] = ("in", "a tuple", 8.5)
                    box[0] = "shared_constant_text"
            loads(50)
            for seal in (True, False):
                constants = [c for c in outer.__code__.co_consts if type(c) in (float, tuple, str)]
                constants += [c for c in loads.__code__.co_consts if c is not None]
                before = [sys.getrefcount(c) for c in constants]
                for _ in range({LOADS}):
                    box[0] = 8654321.5; box[0] = ["in", "another tuple", 9.5][0]
                    box[0] = "shared_constant_text"
                after = [sys.getrefcount(c) for c in constants]
                if seal: pasture.seal()
            def work():
                loads({LOADS})
                last = [sys.getrefcount(c) for c in constants]
                return max(abs(b - a) for a, b in [*zip(before, after), *zip(after, last)])
            {place}
        outer()
    """)
    assert int(out) < 200


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with CPython 3.12")
def test_caches_of_watched_calls_are_not_taken_for_instructions(run_program):
    """The cache of a call has the version of what it called; 256 of them look like every opcode."""
    out = run_program(f"""
{TOOLS["monitoring of calls"]}
SOURCE = '''
def called(): pass
def loads(count, box=[None]):
    for _ in range(count):
        called(); box[0] = %d.5
'''
# Each makes three code objects, with the next three versions: an odd number reaches all bytes.
loads = []
for i in range(256):
    exec(SOURCE % (7654321 + i), space := {{}})
    loads.append(space["loads"])
def run(count):
    for each in loads: each(count)
def counts():
    return [sys.getrefcount(c) for f in loads for c in f.__code__.co_consts if type(c) is float]
run(50); start(); run(50); pasture.seal()
def work():
    before = counts(); run(1000); after = counts()
    return len(after), max(abs(b - a) for a, b in zip(before, after))
in_child(work)
""")
    found, drift = map(int, out.strip("()\n").split(", "))
    assert found == 256
    assert drift < 200


@pytest.mark.skipif(
    "PASTURE_LONG" not in os.environ, reason="takes minutes: PASTURE_LONG=1 has it run"
)
@pytest.mark.timeout(3600)
def test_two_to_the_31st_loads_of_monitored_code_leave_its_constants_alive(run_program):
    """The same as the short one, without the extrapolation."""
    out = run_program(
        f"""
{TOOLS["cProfile"]}
def loads(rounds, box=[None, None]):
    for _ in range(rounds):
        {"box[0] = 7654321.5; box[1] = 'constant text %s'; " * 64}
loads(50); start(); loads(50); stop(); pasture.seal()
def body():
    for _ in range(2**8):
        loads(2**17)
        gc.collect()
    constants = [c for c in loads.__code__.co_consts if c is not None]
    return constants, [_native.is_immortal(c) for c in constants]
in_child(body)
""",
        timeout_s=3500,
    )
    assert out == "([7654321.5, 'constant text %s'], [True, True])\n"
