"""Instances whose class has inline values and inherits slots: both hold references."""

BASES = {
    "slots": "class Base: __slots__ = ('slot',)",
    "slots and weak references": "class Base: __slots__ = ('slot', '__weakref__')",
    "slots over slots": """
class First: __slots__ = ('first',)
class Base(First): __slots__ = ('slot',)
""",
    "plain class over slots": """
class First: __slots__ = ('slot',)
class Base(First): pass
""",
    "slots over a plain class": """
class First: pass
class Base(First): __slots__ = ('slot',)
""",
    "generic slots": """
import typing
T = typing.TypeVar("T")
class Base(typing.Generic[T]): __slots__ = ('slot',)
""",
    "dataclass with slots": """
import dataclasses
@dataclasses.dataclass(slots=True)
class Base: slot: object = None
""",
    "slots and a base without": """
class First: __slots__ = ('slot',)
class Second: pass
class Base(First, Second): pass
""",
}

RUNS = {"collect": "pasture.collect()", "install": "pasture.gc.install(); gc.collect()"}


HELD = """
{base}
class Derived(Base): pass
class Further(Derived): __slots__ = ('more',)
gc.disable()
pasture.collect()
holders = []
for number, type in enumerate([Derived, Further] * 500):
    holder = type()
    holder.slot = {{"number": number, "held": [holder]}}
    holder.plain = [number]
    if type is Further: holder.more = [number]
    holders.append(holder)
gc.collect(0); gc.collect(1)
{run}
print(pasture.gc.history().garbage)
assert all(h.slot["number"] == i and h.slot["held"][0] is h and h.plain == [i]
           for i, h in enumerate(holders))
del holder
dead = [weakref.ref(h) for h in holders if hasattr(h, "__weakref__")]
holders.clear()
{run}
print(pasture.gc.history().garbage >= 3000, [ref for ref in dead if ref() is not None])
"""


def test_what_an_inherited_slot_holds_is_alive(run_each):
    programs = {
        f"{base}, {run}": HELD.format(base=source, run=call)
        for base, source in BASES.items()
        for run, call in RUNS.items()
    }
    assert run_each(programs) == dict.fromkeys(programs, "0\nTrue []\n")


HELD_IN_A_CHILD = """
class Derived(Base): pass
pasture.seal()
def work():
    gc.disable()
    holders = [Derived() for _ in range(1000)]
    for holder in holders: holder.slot = [holder]
    gc.collect(0); gc.collect(1); gc.collect()
    assert all(holder.slot[0] is holder for holder in holders)
    return pasture.gc.history().garbage
in_child(work)
"""


def test_a_sealed_child_keeps_what_an_inherited_slot_holds(run_each):
    programs = {name: f"{base}\n{HELD_IN_A_CHILD}" for name, base in BASES.items()}
    assert run_each(programs) == dict.fromkeys(programs, "0\n")
