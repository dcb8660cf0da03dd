"""A file that another user made neither hangs nor misleads who reads it."""

import os
import struct
from pathlib import Path

import pytest

from pasture.errors import UsageError
from pasture.trust.foreign_files import read_foreign, read_trusted, user_of
from pasture_tools.proc.elf import Elf, parse_elf, read_elf, read_perf_map

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
OTHER_USER = 65534


def test_a_plain_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)

    assert read_foreign(tmp_path / "file", most_bytes=3_000_000) == b"x" * 3_000_000
    assert read_foreign(Path("/proc/self/stat"), most_bytes=10_000).startswith(b"%d" % os.getpid())


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "device", "absent", "nul"])
def test_anything_else_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/etc/hostname")
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "nul":
        path = tmp_path / "a\0b"

    with pytest.raises(UsageError, match="cannot read"):
        read_foreign(path, most_bytes=100)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(UsageError, match="more than 1,000 bytes"):
        read_foreign(tmp_path / "sparse", most_bytes=1000)
    with pytest.raises(UsageError, match="more than 10 bytes"):
        read_foreign(Path("/proc/self/stat"), most_bytes=10)


def test_a_file_that_decides_may_be_a_link_and_is_this_users_alone(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("x")
    path.chmod(0o600)
    link.symlink_to(path)
    assert read_trusted(link, most_bytes=1) == b"x"
    path.chmod(0o602)
    with pytest.raises(UsageError, match="every user may write to it"):
        read_trusted(link, most_bytes=1)


@as_root
def test_a_file_that_decides_is_refused_if_another_user_or_group_has_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    path.chmod(0o620)
    os.chown(path, 0, OTHER_USER)
    with pytest.raises(UsageError, match=f"group {OTHER_USER} may write to it"):
        read_trusted(path, most_bytes=1)
    os.chown(path, OTHER_USER, 0)
    with pytest.raises(UsageError, match=f"belongs to user {OTHER_USER}"):
        read_trusted(path, most_bytes=1)


@as_root
def test_a_file_of_a_user_without_business_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    os.chown(path, OTHER_USER, OTHER_USER)

    with pytest.raises(UsageError, match="belongs to user 65534"):
        read_foreign(path, most_bytes=10)
    assert read_foreign(path, most_bytes=10, owners=(OTHER_USER,)) == b"x"
    assert user_of(os.getpid()) == (0,)


def test_a_perf_map_that_is_a_fifo_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "perf.map")

    assert read_perf_map(tmp_path / "perf.map") == ([], [], [])


def test_of_a_perf_map_only_lines_that_name_code_count(tmp_path: Path) -> None:
    path = tmp_path / "perf.map"
    path.write_bytes(b"zz 10 garbage\n10 4 py::f\n\xff\xfe\0\n7\n20 -x y\n30 8 py::\xff\n")

    assert read_perf_map(path) == ([0x10, 0x30], [0x14, 0x38], ["py::f", "py::\ufffd"])


def test_a_library_that_is_a_fifo_by_now_has_no_symbols(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lib.so")

    assert read_elf(str(tmp_path / "lib.so")) == Elf()


def test_of_tables_of_symbols_without_end_few_are_read() -> None:
    tables, size = 60_000, 240_000
    start = 64 + 64 * tables
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01", *[0] * 5, 64, *[0] * 5, tables, 0)
    section = struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, start, size, *[0] * 4)

    assert parse_elf(head + section * tables + bytes(size)) == Elf()


def test_a_missing_file_is_no_matter_of_its_kind(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        read_foreign(tmp_path / "gone", most_bytes=9)
    assert raised.value.hint == "check the path"
