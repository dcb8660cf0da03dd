"""Tuples and frozensets that C code fills while the process is sealed: they can still be filled.

CPython's own functions for that refuse another count than 1. The program calls back into Python, or
waits in another thread, with a few items in place.
"""

import sys

import pytest

SIZE = 12
AT = [0, 1, 2, 5, SIZE - 2, SIZE - 1]

SEALING = """
SEEN = []
def call(i):
    SEEN.append(i)
    if i == AT:
        report = pasture.seal()
        assert report.sealed or not _native.HAS_IMMORTALITY, report.reason
    return [i]
"""

STANDARD_LIBRARY = """
import itertools, marshal, operator, types
def batches():
    batch = getattr(itertools, "batched", lambda items, n: [list(items)])
    return [len(one) for one in batch(map(call, range(12)), 5)]
def made(): return len(tuple(map(call, range(12))))
def generated(): return len(tuple(call(i) for i in range(12)))
def unpacked(): return len((lambda *items: items)(*map(call, range(12))))
def zipped(): return len(list(zip(map(call, range(12)), range(12), strict=True)))
def products(): return len(list(itertools.product(map(call, range(12)), (1, 2))))
def combined(): return len(list(itertools.combinations(map(call, range(12)), 2)))
def paired(): return len(list(getattr(itertools, "pairwise", zip)(map(call, range(12)))))
def frozen(): return len(frozenset(len(call(i)) + i for i in range(12)))
def sorted_(): return len(sorted(range(12), key=call))
class Parameter:
    # Asked for what it is a parameter of, in the middle of the tuple of all.
    def __init__(self, i): self.i = i
    @property
    def __parameters__(self):
        call(self.i)
        return tuple(Parameter(100 * self.i + more) for more in range(self.i))
def parameters():
    SEEN.clear()
    alias = types.GenericAlias(list, tuple(map(Parameter, range(12))))
    return len(alias.__parameters__)
def arguments(): return operator.itemgetter(*range(12))([call(i) for i in range(12)])[0]
for what in (batches, made, generated, unpacked, zipped, products, combined, paired, frozen,
             sorted_, parameters, arguments):
    print(what.__name__, what())
"""

EXTENSION = """
import filler
class Tuple(tuple): pass
class Slots(tuple): __slots__ = ()
class Set(frozenset): pass
def number(i): return len(call(i)) + i
def full(made): return [len(made), all(made[i] == [i] for i in range(12) if i < len(made))]
print(full(filler.fill_tuple(12, call)))
print(full(filler.fill_type(Tuple, 12, call)), full(filler.fill_type(Slots, 12, call)))
print(full(filler.replace_items(12, call)), full(filler.grow_tuple(12, call)))
print(full(filler.fill_nested(12, call)[0]))
print(len(filler.fill_frozenset(12, number)), len(filler.fill_frozenset(12, number, Set)))
builder = filler.Builder(12)
print([builder.add(call(i)) for i in range(12)])
"""

IN_ANOTHER_THREAD = """
import itertools, queue, threading
# One that is filled waits for its third item, in C code that waits for a queue.
def fill(items, results):
    results.append([len(one) for one in itertools.batched(iter(items.get, None), 5)])
items, results = queue.SimpleQueue(), []
thread = threading.Thread(target=fill, args=(items, results))
thread.start()
for i in range(AT): items.put([i])
while not items.empty(): pass
report = pasture.seal()
assert report.sealed, report.reason
for i in range(AT, 12): items.put([i])
items.put(None)
thread.join()
print(results)
"""


def at_each_moment(program: str) -> dict[str, str]:
    """Of a program one that never seals, and one for each item at which it may."""
    return {str(at): f"AT = {at}\n{SEALING}\n{program}" for at in (-1, *AT)}


def test_what_the_standard_library_fills_while_it_is_sealed_gets_full(run_each):
    outputs = run_each(at_each_moment(STANDARD_LIBRARY))
    assert outputs == dict.fromkeys(outputs, outputs["-1"])
    assert "batches [5, 5, 2]" in outputs["-1"] or sys.version_info < (3, 12)


def test_what_an_extension_fills_while_it_is_sealed_gets_full(run_each, build_extension):
    outputs = run_each(at_each_moment(EXTENSION), path=[build_extension("filler")])
    assert outputs == dict.fromkeys(outputs, outputs["-1"])
    assert "[12, True]" in outputs["-1"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="it has no itertools.batched")
@pytest.mark.parametrize("at", [1, 7, 11])
def test_what_another_thread_fills_while_it_waits_for_items_gets_full(run_program, at):
    assert run_program(f"AT = {at}\n{IN_ANOTHER_THREAD}") == "[[5, 5, 2]]\n"
