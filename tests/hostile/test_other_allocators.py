"""Allocators that pasture does not know, and libraries that claim to be one."""

import os

import pytest

COMB = """
def os_pages(objects):
    return {(id(o) + at) >> 12 for o in objects for at in (0, 1500)}
def beside(objects):
    return sum(bool(os_pages([o]) & shared) for o in objects)
kept = [bytes([n % 251]) * 1500 for n in range(2000)]
del kept[::2]
shared = os_pages(kept)
"""

CHURN = """
def churn():
    alive = {}
    for n in range(20_000):
        alive[n * n % 700] = bytes([n % 251]) * (n * 7919 % 5000)
    assert all(len(set(text)) <= 1 for text in alive.values())
    kept.clear()
    return "worked"
"""

PLUG = """
plugged = _native.plug_malloc()
fresh = [bytes(1500) for _ in range(1000)]
print(plugged["allocator"], plugged["blocks"] > 800, beside(fresh) <= 5 or beside(fresh))
"""


@pytest.fixture
def preload(build_extension):
    def prepare(*names):
        paths = [str(build_extension(name) / f"{name}.abi3.so") for name in names]
        return os.environ | {"LD_PRELOAD": ":".join(paths)}

    return prepare


def test_the_holes_of_an_allocator_without_any_interface_are_plugged(run_program, preload):
    out = run_program(
        COMB
        + CHURN
        + PLUG
        + """
assert pasture.seal().sealed
in_child(churn)
""",
        env=preload("other_malloc"),
    )
    assert out == "an unknown allocator True True\nworked\n"


@pytest.mark.parametrize(
    ("names", "variables", "said"),
    [
        pytest.param(
            *(("other_malloc",), {"PYTHONMALLOC": "debug"}, "an unknown allocator "),
            id="memory that the interpreter wraps is left out",
        ),
        pytest.param(
            *(("lying_names",), {}, "glibc True "),
            id="one that claims all memory is not believed where glibc serves it",
        ),
        pytest.param(
            *(("lying_names", "other_malloc"), {}, "tcmalloc True True\n"),
            id="a lie about who serves malloc changes a name and nothing else",
        ),
    ],
)
def test_a_child_works_whatever_a_library_claims(run_program, preload, names, variables, said):
    env = preload(*names) | variables
    out = run_program(COMB + CHURN + PLUG + "in_child(churn)\n", env=env)
    assert out.startswith(said) and out.endswith("\nworked\n")


def test_where_no_file_can_be_opened_nothing_is_plugged_and_said_so(run_program, preload):
    out = run_program(
        COMB
        + CHURN
        + """
import resource
before = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
try: _native.plug_malloc()
except NotImplementedError as reason: print(reason)
resource.setrlimit(resource.RLIMIT_NOFILE, before)
print(churn())
""",
        env=preload("other_malloc"),
    )
    said, worked = out.splitlines()
    assert "it is not known which memory is in use" in said and worked == "worked"


@pytest.mark.parametrize("limit_bytes", [0, 20 << 20])
def test_memory_that_is_refused_ends_the_plugging_and_harms_nothing(
    run_program, preload, limit_bytes
):
    out = run_program(
        COMB
        + CHURN
        + f"""
import resource
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
before = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (size + {limit_bytes}, before[1]))
try:
    plugged = _native.plug_malloc()
except NotImplementedError as reason:
    plugged = dict(reason=str(reason))
resource.setrlimit(resource.RLIMIT_AS, before)
print("reason" in plugged or plugged["blocks"] > 800)
in_child(churn)
""",
        env=preload("other_malloc"),
    )
    assert out == "True\nworked\n"
