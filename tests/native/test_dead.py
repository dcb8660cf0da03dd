"""The account of what earlier seals keep, although nothing leads to it any more."""

import pytest

pytestmark = pytest.mark.immortality

PRELUDE = """
import pasture
from pasture import _native

class Record:
    def __init__(self, number):
        self.name, self.items = f"record {number}", [number + 0.5, {number: str(number)}]

def dead(kind):
    # Objects and bytes of one type.
    rows = {row[0]: row[1:] for row in _native.dead_objects()}
    return rows.get(kind, (0, 0))
"""


def test_before_the_first_seal_nothing_is_looked_at(run_program):
    out = run_program(PRELUDE + "print(_native.dead_objects(), pasture.seal().dead_bytes)\n")
    assert out == "[] 0\n"


def test_what_is_dropped_after_its_seal_is_counted_by_type_at_the_next(run_program):
    out = run_program(
        PRELUDE
        + """
generation = [Record(number) for number in range(2000)]
table = {number: Record(number) for number in range(300)}
pasture.seal()
before = dead(Record)[0], dead(float)[0], dead(str)[0]
held = generation[:500]
generation = None
records, floats, strings = (dead(kind) for kind in (Record, float, str))
print(before[0], records[0], floats[0] - before[1], strings[0] - before[2] > 2900)
print(floats[1] == 24 * floats[0], dead(dict)[1] >= 1500 * 100)
report = pasture.seal()
print({one.name: one.objects for one in report.dead_types}["__main__.Record"])
print(report.dead_bytes == report.step("immortalize").counts["dead_bytes"] > 500_000)
"""
    )
    assert out.splitlines() == ["0 1500 1500 True", "True True", "1500", "True"]


def test_what_a_mortal_object_refers_to_is_not_dead(run_program):
    out = run_program(
        PRELUDE
        + """
kept = [Record(1)]
pasture.seal()
generator = (one for one in [kept.pop()])
late = {"held": generator}
del generator
print(dead(Record))
late.clear()
print(dead(Record)[0])
"""
    )
    assert out == "(0, 0)\n1\n"


def test_a_report_says_what_to_do_above_a_tenth(run_program):
    out = run_program(
        PRELUDE
        + """
small, large = [Record(0)], [Record(number) for number in range(20_000)]
pasture.seal()
small.clear()
print(pasture.seal().warnings)
large.clear()
print(*pasture.seal().warnings)
"""
    )
    first, then = out.splitlines()
    assert first == "()"
    assert "MB of the heap are sealed and not used any more (20,0" in then
    assert then.endswith("restart the server, or replace data before its first seal")
