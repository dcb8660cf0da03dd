"""What binding generators make: how it is built, and what each kind of object lives through."""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from pasture import _native

CHECK_BUILD = hasattr(_native, "fail_scratch_after")

# A kind says make(), and where they are no methods hold(one, value) and held(one). What the
# built-in collector does with its garbage before the seal is what the others have to do.
LIFE = """
FINDS = None
def hold(one, value): one.hold(value)
def held(one): return one.held()
def frozen(): return pasture.collect(frozen=True)
def outlive(full):
    global FINDS
    gc.disable()
    full()
    kept = [make() for _ in range(SOME)]
    for number, one in enumerate(kept): hold(one, [one, number])
    cycles = [make() for _ in range(SOME)]
    nodes = [cycle() for _ in range(SOME)]
    for one, node in zip(cycles, nodes):
        node.one = one
        hold(one, [one, cycles[-1], node])
    dead = [weakref.ref(node) for node in nodes]
    del one, node
    gc.collect(0); gc.collect(1)
    full()
    assert all(ref() is not None for ref in dead), "a live object was taken for garbage"
    nodes.clear(); cycles.clear()
    full()
    found = sum(ref() is None for ref in dead)
    if FINDS is None: FINDS = found
    assert found == FINDS, f"{found} cycles were found, not {FINDS}"
    for number, one in enumerate(kept):
        of_it = held(one)
        assert of_it[0] is one and of_it[1] == number, "a live object is gone"
    gc.enable()
def again():
    for number, one in enumerate(old[:SOME]):
        of_it = held(one)
        assert of_it[0] is one and of_it[1] == number, "a sealed object is gone"
    for full in (gc.collect, pasture.collect, frozen): outlive(full)
def outgrow():
    more = [make() for _ in range(MANY)]
    again()
def reseal():
    again()
    assert pasture.seal().sealed
    in_child(again)
    in_child(outgrow)
    again()
"""

LIVE = """
for full in (gc.collect, pasture.collect, frozen): outlive(full)
old = [make() for _ in range(MANY)]
for number, one in enumerate(old[:SOME]): hold(one, [one, number])
pasture.gc.install()
outlive(gc.collect)
pasture.gc.uninstall()
assert pasture.seal().sealed
in_child(again)
in_child(outgrow)
in_child(reseal)
reseal()
sys.stdout.flush()
if os.fork() == 0:
    again()
    sys.exit()
assert os.wait()[1] == 0
old.clear(); del one
gc.collect(); pasture.collect()
print("end")
"""

# The seal and a fork while frames of the generator's own wait for the function: three
# processes go on behind it.
MOMENT = """
def moment(generation=0):
    pasture.collect(); pasture.collect(frozen=True)
    litter = [cycle() for _ in range(100)]
    pasture.gc.install()
    gc.collect()
    pasture.gc.uninstall()
    assert pasture.seal().sealed
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0 and generation == 0: return moment(1)
    assert pid == 0 or os.waitpid(pid, 0)[1] == 0
    gc.collect(); pasture.collect(); pasture.collect(frozen=True)
    return "went on"
"""


@pytest.fixture
def live_through(run_program) -> Callable[..., None]:
    """Have objects of one kind live through everything that pasture does."""

    def run(kind: str, path: Sequence[Path], *, some: int = 1000, many: int = 20_000) -> None:
        slower = 8 if CHECK_BUILD else 1
        numbers = f"SOME, MANY = {some // slower}, {many // slower}\n"
        out = run_program(LIFE + numbers + kind + LIVE, path=path)
        assert out.endswith("end\n"), out

    return run


@pytest.fixture
def seal_inside(run_program) -> Callable[..., None]:
    """Seal and fork, twice, in the function `moment` that `call` is given to call."""

    def run(call: str, path: Sequence[Path]) -> None:
        out = run_program(f"{MOMENT}\n{call}\nprint(call(moment))\n", path=path)
        assert out == "went on\n" * 3

    return run


@pytest.fixture(scope="session")
def build_binding(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, Sequence[str | Path]], Path]:
    """Compile sources to a module; the folder to put on the path."""
    headers = Path(sysconfig.get_path("include"))

    @cache
    def build(module: str, words: tuple[str | Path, ...]) -> Path:
        compiler = shutil.which("c++")
        if compiler is None or not (headers / "Python.h").exists():
            pytest.skip(f"no C++ compiler, or no headers of this interpreter in {headers}")
        folder = tmp_path_factory.mktemp(module)
        command = [compiler, "-shared", "-fPIC", "-O0", "-fvisibility=hidden", f"-I{headers}"]
        run_tool(*command, "-o", folder / f"{module}.so", *words)
        return folder

    return lambda module, words: build(module, tuple(words))


def run_tool(*command: str | Path, path: Path | None = None) -> None:
    environment = None if path is None else {"PYTHONPATH": str(path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def run_cython(generators) -> Callable[..., None]:
    def run(source: Path, target: Path) -> None:
        folder = generators("Cython")
        words = ["-m", "cython", "-3", "-o", target, source]
        run_tool(sys.executable, *words, path=folder)

    return run
