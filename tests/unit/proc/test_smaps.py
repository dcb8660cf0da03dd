"""The text of smaps_rollup, and what is said when it cannot be read."""

import errno
import re
from pathlib import Path

import pytest

from pasture.errors import NoPrivilege
from pasture.proc import smaps

ROLLUP = """\
55f4f8db1000-7ffd8bf7c000 ---p 00000000 00:00 0                          [rollup]
Rss:                1700 kB
Pss:                 476 kB
Pss_Dirty:           112 kB
Shared_Clean:       1456 kB
Shared_Dirty:          8 kB
Private_Clean:       104 kB
Private_Dirty:       132 kB
Swap:                 12 kB
SwapPss:               6 kB
Locked:                0 kB
"""


def _proc(tmp_path: Path, name: str, text: str, pid: str = "7") -> Path:
    (tmp_path / pid).mkdir()
    (tmp_path / pid / name).write_text(text)
    return tmp_path


def test_figures_are_bytes_and_add_up_to_the_resident_set() -> None:
    memory = smaps.parse_rollup(ROLLUP)

    assert memory.rss_bytes == 1700 * 1024
    assert memory.pss_bytes == 476 * 1024
    assert memory.private_bytes == (104 + 132) * 1024
    assert memory.private_dirty_bytes == 132 * 1024
    assert memory.swap_pss_bytes == 6 * 1024
    assert memory.private_bytes + memory.shared_bytes == memory.rss_bytes


def test_private_huge_pages_count_as_private() -> None:
    memory = smaps.parse_rollup(ROLLUP + "Private_Hugetlb:    2048 kB\n")

    assert memory.private_bytes == (104 + 132 + 2048) * 1024


def test_a_file_without_a_field_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="Private_Dirty"):
        smaps.parse_rollup(ROLLUP.replace("Private_Dirty", "Something"))


def test_a_process_is_read_from_its_directory(tmp_path: Path) -> None:
    proc = _proc(tmp_path, "smaps_rollup", ROLLUP)

    memory = smaps.read_memory(7, proc)

    assert memory == smaps.parse_rollup(ROLLUP)


def test_a_process_that_is_gone_has_no_memory(tmp_path: Path) -> None:
    assert smaps.read_memory(7, tmp_path) is None


def test_a_process_that_gave_up_its_memory_has_none(tmp_path: Path) -> None:
    assert smaps.read_memory(7, _proc(tmp_path, "smaps_rollup", "")) is None


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_a_process_of_another_user_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(self: Path) -> str:
        raise OSError(code, "refused")

    monkeypatch.setattr(Path, "read_text", refuse)

    with pytest.raises(NoPrivilege, match="process 7") as caught:
        smaps.read_memory(7, tmp_path)
    assert "root" in caught.value.hint


@pytest.mark.parametrize(
    ("statm", "held"), [("0 0 0 0 0 0 0\n", False), ("1894 5 4 3 0 2 0\n", True)]
)
def test_an_ending_process_holds_no_memory(tmp_path: Path, statm: str, held: bool) -> None:
    assert smaps.has_memory(7, _proc(tmp_path, "statm", statm)) is held


def test_an_ended_process_holds_no_memory(tmp_path: Path) -> None:
    assert smaps.has_memory(7, tmp_path) is False


def test_a_kernel_without_rollups_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(NoPrivilege, match="smaps_rollup"):
        smaps.require_smaps_rollup(tmp_path)


def test_a_kernel_with_rollups_is_accepted(tmp_path: Path) -> None:
    smaps.require_smaps_rollup(_proc(tmp_path, "smaps_rollup", ROLLUP, pid="self"))


def test_memory_of_several_processes_is_summed_or_is_not_known(tmp_path: Path) -> None:
    for pid, kib in (("1", 100), ("2", 50)):
        _proc(tmp_path, "smaps_rollup", re.sub(r"Pss:.*kB", f"Pss: {kib} kB", ROLLUP, count=1), pid)
    _proc(tmp_path, "smaps_rollup", "", "3")
    assert smaps.total_pss_bytes([1, 2], tmp_path) == 150 * 1024
    assert smaps.total_pss_bytes([1, 3], tmp_path) is None
    assert smaps.total_pss_bytes([1, 4], tmp_path) is None
    (tmp_path / "5" / "smaps_rollup").mkdir(parents=True)  # reading it fails as nothing else does
    assert smaps.total_pss_bytes([1, 5], tmp_path) is None


def test_private_memory_of_this_process_is_all_that_is_private(tmp_path: Path) -> None:
    proc = _proc(tmp_path, "smaps_rollup", ROLLUP, "self")
    assert smaps.own_private_bytes(proc) == smaps.parse_rollup(ROLLUP).private_bytes > 0


def test_a_machine_without_the_figure_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="smaps_rollup"):
        smaps.own_private_bytes(tmp_path)
    with pytest.raises(OSError, match="no field"):
        smaps.own_private_bytes(_proc(tmp_path, "smaps_rollup", "Rss: 1 kB\n", "self"))
