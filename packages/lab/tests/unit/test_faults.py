"""What perf prints of page faults, and whose they are."""

import pytest

from pasture_lab.experiments.faults import group_of, is_named, perf_stacks

PERF = """\
 3624 page-faults:
\tffffffff817554ea elf_load+0x28a ([kernel.kallsyms])

 3624 page-faults:
\t          146c2c _PyObject_GC_New
\t          b63c60 [unknown]

 3622 page-faults:
\tffffffff81000130 entry
\t          14b28e visit_decref
\t          218dc0 gc_collect_main
"""


def test_stacks_of_perf_leave_out_the_kernel_and_the_head_of_each() -> None:
    assert list(perf_stacks(PERF)) == [
        ("_PyObject_GC_New", "[unknown]"),
        ("visit_decref", "gc_collect_main"),
    ]


@pytest.mark.parametrize(
    ("stack", "group"),
    [
        (("visit_decref", "gc_collect_main"), "collector"),
        (("memcpy", "gc_collect_main.cold"), "collector"),
        (("_PyObject_GC_New", "main"), "_PyObject_GC_New"),
        (("_native.cpython-314-x86_64-linux-gnu.so+0x10",), "pasture, out of line"),
    ],
)
def test_a_fault_is_the_collectors_if_it_is_on_the_stack(
    stack: tuple[str, ...], group: str
) -> None:
    assert group_of(stack) == group


@pytest.mark.parametrize(
    ("function", "named"),
    [("list_append", True), ("python3.14+0x14701d", False), ("?", False), ("[unknown]", False)],
)
def test_a_place_in_a_file_is_no_name(function: str, named: bool) -> None:
    assert is_named(function) is named
