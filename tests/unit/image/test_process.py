"""Parts of the copy of a process that need none: mappings, regions, variables, options."""

from __future__ import annotations

import pytest

from pasture.errors import UsageError
from pasture.proc.maps import parse_smaps
from pasture_image.build.interpreter import split_options
from pasture_image.build.manifest import Needs
from pasture_image.build.regions import ANONYMOUS, Region, _grouped, _joined, filled
from pasture_image.inside.start_variables import always_read, is_uncounted

SMAPS = """\
00400000-00402000 r--p 00001000 fe:00 77                         /usr/bin/a file
Size:                  8 kB
VmFlags: rd mr mw me sd
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
VmFlags: rd wr mr mw me ac wf
7ffff0000000-7ffff0002000 r-xp 00000000 00:00 0                  [vdso]
VmFlags: rd ex
"""


def test_mappings_are_read_with_names_that_hold_spaces() -> None:
    (file, figures), (anonymous, _), (kernels, _) = parse_smaps(SMAPS)
    assert (file.start, file.length, file.offset, file.path, file.inode) == (
        *(0x400000, 0x2000, 0x1000, "/usr/bin/a file", 77),
    )
    assert file.is_file and not anonymous.is_file and kernels.path == "[vdso]"
    assert "wf" in anonymous.flags and "rd" in file.flags
    assert figures == {"Size": 8192}


@pytest.mark.parametrize(
    ("os_pages", "groups"),
    [
        ([], []),
        ([3], [(3, 3)]),
        ([1, 2, 3], [(1, 3)]),
        ([1, 17, 34], [(1, 17), (34, 34)]),
        ([0, 16, 32, 49], [(0, 32), (49, 49)]),
    ],
)
def test_pages_that_stand_close_together_are_written_together(
    os_pages: list[int], groups: list[tuple[int, int]]
) -> None:
    assert _grouped(os_pages) == groups


def test_pages_of_zeros_are_not_written() -> None:
    page, zero = b"x" * 4096, bytes(4096)
    assert list(filled(zero + page + page + zero + page)) == [
        (4096, page + page),
        (4 * 4096, page),
    ]


def test_neighbours_are_mapped_at_once_if_the_file_goes_on_in_the_same_way() -> None:
    first = Region(0x1000, 0x1000, 0x5000, 2, 3, 2)
    follows = Region(0x2000, 0x1000, 0x6000, 2, 3, 2)
    elsewhere = Region(0x3000, 0x1000, 0x9000, 2, 3, 2)
    empty = Region(0x4000, 0x1000, 0, ANONYMOUS, 3, 2)
    found = _joined([first, follows, elsewhere, empty])
    assert [region.length for region in found] == [0x2000, 0x1000, 0x1000]


def test_of_all_variables_those_that_differ_from_start_to_start_are_excepted() -> None:
    rules = Needs("/bin/python", (), {"A": "1"}, all_variables=True).rules()
    assert [rule for rule in rules if rule[0] in "=-^"] == ["=A=1", "^"]
    assert {"!PWD", "!_", "!PASTURE", "~PASTURE_"} < set(rules)
    assert "!PYTHONSTARTUP" not in rules
    assert is_uncounted("PASTURE_POLICY") and not is_uncounted("PASTURES")


def test_rules_name_what_must_be_and_what_must_not() -> None:
    variables = always_read({"PYTHONPATH": "/a", "OTHER": "1", "PYTHON_COLORS": "0"})
    rules = Needs("/bin/python", variables=variables).rules()
    assert {"=PYTHONPATH=/a", "-HOME", "-PYTHONHASHSEED", "^OMP_"} <= set(rules)
    assert not any("OTHER" in rule or "COLORS" in rule for rule in rules)


def test_options_are_split_as_the_stub_splits_them() -> None:
    assert split_options("-uX dev -Werror") == ["-u", "-X", "dev", "-W", "error"]
    for wrong in ("-c pass", "--help", "-X", "u", "'"):
        with pytest.raises(UsageError):
            split_options(wrong)
