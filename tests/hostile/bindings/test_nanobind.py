"""Objects of nanobind: sources/nanobind_kinds.cpp, for this version and for the stable ABI."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)  # a compiler takes its time on a busy machine

SOURCE = Path(__file__).parent / "sources" / "nanobind_kinds.cpp"

CLASSES = ["Holder", "Plain", "Dynamic", "WithWeakReferences", "Everything", "Traversed", "Shared"]
KINDS = {name: f"make = kinds.{name}" for name in CLASSES} | {
    "owned by C++": "make = kinds.shared",
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
}

BUILDS = {"this version": [], "stable ABI of 3.12": ["-DPy_LIMITED_API=0x030C0000"]}


@pytest.fixture(scope="session", params=BUILDS)
def kinds(request, generators, build_binding) -> Path:
    if request.param == "stable ABI of 3.12" and sys.version_info < (3, 12):
        pytest.skip("built for a later version")
    home = generators("nanobind") / "nanobind"
    words = ["-std=c++17", "-fno-strict-aliasing", "-DNDEBUG", *BUILDS[request.param]]
    words += [f"-I{home / 'include'}", f"-I{home / 'ext' / 'robin_map' / 'include'}"]
    return build_binding("nanobind_kinds", [*words, SOURCE, home / "src" / "nb_combined.cpp"])


@pytest.mark.parametrize("kind", KINDS)
def test_objects_of_nanobind_live_through_everything(live_through, kinds, kind):
    live_through(f"import nanobind_kinds as kinds\n{KINDS[kind]}", [kinds])


def test_a_seal_inside_of_a_call_of_nanobind(seal_inside, kinds):
    seal_inside("from nanobind_kinds import call", [kinds])
