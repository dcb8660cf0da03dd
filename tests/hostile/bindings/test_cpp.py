"""Objects of C++, as nanobind and pybind11 bind them: sources/nanobind_kinds.cpp and its like."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)  # a compiler takes its time on a busy machine

SOURCES = Path(__file__).parent / "sources"

CLASSES = ["Holder", "Plain", "Dynamic", "Traversed", "Shared"]
OF_BOTH = {name: f"make = kinds.{name}" for name in CLASSES} | {
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
KINDS = {
    "nanobind_kinds": OF_BOTH
    | {name: f"make = kinds.{name}" for name in ("WithWeakReferences", "Everything")}
    | {"owned by C++": "make = kinds.shared"},
    "pybind11_kinds": OF_BOTH
    | {name: f"make = kinds.{name}" for name in ("Left", "Both")}
    | {
        "kept alive by a list": """
class Nurse:
    keeper = None
def make():
    made = Nurse(); made.keeper = kinds.Keeper(); return made
def hold(one, value): one.keeper.hold(value)
def held(one): return one.keeper.held()
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
    },
}


def nanobind(folder: Path) -> list[str | Path]:
    home = folder / "nanobind"
    words = ["-fno-strict-aliasing", "-DNDEBUG", f"-I{home / 'include'}"]
    words += [f"-I{home / 'ext' / 'robin_map' / 'include'}"]
    return [*words, SOURCES / "nanobind_kinds.cpp", home / "src" / "nb_combined.cpp"]


def pybind11(folder: Path) -> list[str | Path]:
    return [f"-I{folder / 'pybind11' / 'include'}", SOURCES / "pybind11_kinds.cpp"]


STABLE_ABI = "-DPy_LIMITED_API=0x030C0000"
"""Of CPython 3.12."""

# Module, the generator with the words for the compiler, and words of this build.
BUILDS: dict[str, tuple[str, Callable[[Path], list[str | Path]], tuple[str, ...]]] = {
    "nanobind": ("nanobind_kinds", nanobind, ()),
    "nanobind, stable ABI of 3.12": ("nanobind_kinds", nanobind, (STABLE_ABI,)),
    "pybind11": ("pybind11_kinds", pybind11, ()),
}
EACH_KIND = [(name, kind) for name, (module, *_) in BUILDS.items() for kind in KINDS[module]]


@pytest.fixture(scope="session")
def built(request, generators, build_binding) -> tuple[str, Path]:
    """Name of the module, and the folder to put on the path."""
    module, words_for, own = BUILDS[request.param]
    if STABLE_ABI in own and sys.version_info < (3, 12):
        pytest.skip("built for a later version")
    words = words_for(generators(words_for.__name__))
    return module, build_binding(module, ["-std=c++17", *own, *words])


@pytest.mark.parametrize(("built", "kind"), EACH_KIND, indirect=["built"])
def test_objects_of_cpp_live_through_everything(live_through, built, kind):
    module, folder = built
    live_through(f"import {module} as kinds\n{KINDS[module][kind]}", [folder])


@pytest.mark.parametrize("built", BUILDS, indirect=True)
def test_a_seal_inside_of_a_call_from_cpp(seal_inside, built):
    module, folder = built
    seal_inside(f"from {module} import call", [folder])
