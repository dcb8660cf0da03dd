"""Instructions settled ahead: code that first runs in a child writes nothing but counters."""

import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 13), reason="instructions replace themselves from CPython 3.13 on"
)

CODE = """
import dis
def never_run(argument):
    total = 0
    for i in range(argument):
        total += 1000003 if i % 3 else 2000003
    text = "a constant text that is not interned!"
    return total, text, 3.25, (1, "two"), b"three"
def opcodes(function):
    return {instruction.opname for instruction in dis.get_instructions(function, adaptive=True)}
"""


def test_cold_code_takes_its_first_run_form_and_computes_the_same(run_program):
    out = run_program(f"""
{CODE}
text = "a constant text that is not interned!"
expected = (1000003 * 6 + 2000003 * 4, text, 3.25, (1, "two"), b"three")
assert "RESUME" in opcodes(never_run) and "RESUME_CHECK" not in opcodes(never_run)
assert _native.immortalize()["instructions"] > 0
names = opcodes(never_run)
print("RESUME" in names, "RESUME_CHECK" in names, "LOAD_CONST_MORTAL" in names)
print([never_run(10) == expected for _ in range(100)] == [True] * 100)
""")
    assert out == "False True False\nTrue\n"


@pytest.mark.skipif(sys.version_info[:2] != (3, 14), reason="LOAD_CONST_MORTAL exists in 3.14 only")
@pytest.mark.skipif(hasattr(sys, "gettotalrefcount"), reason="debug builds keep strings mortal")
def test_warm_code_no_longer_counts_references_to_its_constants(run_program):
    out = run_program(f"""
{CODE}
for _ in range(50): never_run(10)
assert "LOAD_CONST_MORTAL" in opcodes(never_run)
_native.immortalize()
constant = never_run.__code__.co_consts[never_run.__code__.co_consts.index(3.25)]
before = sys.getrefcount(constant)
held = [never_run(10) for _ in range(50)]
print("LOAD_CONST_MORTAL" in opcodes(never_run), sys.getrefcount(constant) - before)
""")
    assert out == "False 0\n"


def test_settled_code_can_still_be_traced_and_monitored(run_program):
    out = run_program(f"""
{CODE}
_native.immortalize()
lines = []
def trace(frame, event, arg):
    lines.append(event)
    return trace
sys.settrace(trace); never_run(3); sys.settrace(None)
print("call" in lines and "line" in lines and "return" in lines)
tool = sys.monitoring.DEBUGGER_ID
sys.monitoring.use_tool_id(tool, "test")
starts = []
started = sys.monitoring.events.PY_START
sys.monitoring.register_callback(tool, started, lambda code, offset: starts.append(code.co_name))
sys.monitoring.set_events(tool, started)
never_run(3)
sys.monitoring.set_events(tool, 0)
print("never_run" in starts)
_native.immortalize()
print(never_run(3)[2])
""")
    assert out == "True\nTrue\n3.25\n"


def test_a_constant_that_stays_mortal_or_is_not_there_leaves_the_instruction(run_program):
    out = run_program("""
class Closes:
    def __del__(self): assert self
def kept():
    return 3.25
def warm():
    return 3.25
def without():
    return 3.25
code = kept.__code__
def holds(constant):
    return tuple(constant if one == 3.25 else one for one in code.co_consts)
kept.__code__ = code.replace(co_consts=holds(Closes()))
warm.__code__ = code.replace(co_consts=holds(Closes()))
for _ in range(50): warm()
without.__code__ = code.replace(co_consts=())
_native.immortalize()
print([type(one()).__name__ for one in (kept, warm) for _ in range(50)] == ["Closes"] * 100)
""")
    assert out == "True\n"
