"""Objects of pybind11: sources/pybind11_kinds.cpp."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)  # a compiler takes its time on a busy machine

SOURCE = Path(__file__).parent / "sources" / "pybind11_kinds.cpp"

CLASSES = ["Holder", "Plain", "Dynamic", "Traversed", "Shared", "Left", "Both"]
KINDS = {name: f"make = kinds.{name}" for name in CLASSES} | {
    "in the dictionary of one": """
make = kinds.Dynamic
def hold(one, value): one.value = value
def held(one): return one.value
""",
    "class in Python": """
class Mine(kinds.Holder):
    def hold(self, value): super().hold(value); self.more = [self]
    def held(self): assert self.more[0] is self; return super().held()
make = Mine
""",
    "kept alive": """
class Value(list): pass
make = kinds.Keeper
def hold(one, value): one.hold(Value(value))
""",
    "kept alive by a list": """
class Nurse:
    keeper = None
def make():
    made = Nurse(); made.keeper = kinds.Keeper(); return made
def hold(one, value): one.keeper.hold(value)
def held(one): return one.keeper.held()
""",
    "function": """
def make(): return kinds.function([None])
def hold(one, value): one()[0] = value
def held(one): return one()[0]
""",
    "capsule": """
def make(): return kinds.capsule([None])
def hold(one, value): kinds.in_capsule(one)[0] = value
def held(one): return kinds.in_capsule(one)[0]
""",
    "iterator": """
class Iterated:
    def __init__(self):
        self.box = [None]
        self.iterator, self.owner = kinds.iterator([self.box] * 3)
        next(self.iterator)
make = Iterated
def hold(one, value): one.box[0] = value
def held(one): return one.box[0]
""",
    "memory": """
class Mine(kinds.Memory):
    def hold(self, value): self.view = memoryview(self); self.value = value
    def held(self): assert self.view[5] == 7; return self.value
make = Mine
""",
}


@pytest.fixture(scope="session")
def kinds(generators, build_binding) -> Path:
    headers = generators("pybind11") / "pybind11" / "include"
    return build_binding("pybind11_kinds", ["-std=c++17", f"-I{headers}", SOURCE])


@pytest.mark.parametrize("kind", KINDS)
def test_objects_of_pybind11_live_through_everything(live_through, kinds, kind):
    live_through(f"import pybind11_kinds as kinds\n{KINDS[kind]}", [kinds])


def test_a_seal_inside_of_a_call_of_pybind11(seal_inside, kinds):
    seal_inside("from pybind11_kinds import call", [kinds])
