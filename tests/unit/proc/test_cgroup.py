"""What control groups leave, from synthetic files of both versions."""

import os
from pathlib import Path

import pytest

from pasture.proc.cgroup import (
    Headroom,
    read_headroom,
    read_oom_kills,
    read_processors,
    read_usage,
)

MB = 1_000_000


class Machine:
    """A /proc and the mounts that it names, below one folder."""

    def __init__(self, root: Path) -> None:
        self.proc, self.v1, self.v2 = root / "proc", root / "memory", root / "unified"
        (self.proc / "self").mkdir(parents=True)
        self.show_mounts()

    def show_mounts(self, v1_root: str = "/", v2_root: str = "/") -> None:
        text = (
            "22 1 0:5 / / rw - overlay none rw\n"
            f"30 25 0:26 / {self.v1.parent}/cpu rw,relatime - cgroup cgroup rw,cpu\n"
            f"31 25 0:27 {v1_root} {self.v1} rw,relatime - cgroup cgroup rw,memory\n"
            f"32 25 0:28 {v2_root} {self.v2} rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
        )
        (self.proc / "self" / "mountinfo").write_text(text)

    def belongs_to(self, *lines: str) -> None:
        (self.proc / "self" / "cgroup").write_text("\n".join(lines) + "\n")

    def limit_v1(self, group: str, limit: int, usage: int, files: int = 0) -> None:
        stat = f"inactive_file 1\ntotal_inactive_file {files}\ntotal_active_file 0\n"
        self._write(self.v1 / group, "memory.limit_in_bytes", limit, stat)
        (self.v1 / group / "memory.usage_in_bytes").write_text(f"{usage}\n")

    def limit_v2(self, group: str, limit: int | str, usage: int, files: int = 0) -> None:
        stat = f"anon 5\ninactive_file {files}\nactive_file 0\n"
        self._write(self.v2 / group, "memory.max", limit, stat)
        (self.v2 / group / "memory.current").write_text(f"{usage}\n")

    def _write(self, folder: Path, name: str, limit: int | str, stat: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{limit}\n")
        (folder / "memory.stat").write_text(stat)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_a_limit_there_is_no_headroom_to_speak_of(machine: Machine) -> None:
    machine.belongs_to("4:memory:/a", "0::/a")
    machine.limit_v1("a", 9223372036854771712, 5)
    machine.limit_v2("a", "max", 5)
    assert read_headroom(machine.proc) is None


def test_version_2_leaves_what_is_below_its_limit(machine: Machine) -> None:
    machine.belongs_to("0::/a")
    machine.limit_v2("a", 100 * MB, 70 * MB)
    assert read_headroom(machine.proc) == Headroom(30 * MB, machine.v2 / "a")


@pytest.mark.parametrize("name", ["a\x0cb", "a\x85b", "a\rb", "a\u2028b", "a\udcffb"])
def test_names_of_groups_and_mounts_may_hold_any_character(machine: Machine, name: str) -> None:
    for file, line in (
        ("cgroup", f"0::/{name}"),
        ("mountinfo", f"9 1 0:5 / /{name} rw - ext4 d rw"),
    ):
        with (machine.proc / "self" / file).open("ab") as out:
            out.write(os.fsencode(f"{line}\n"))
    machine.limit_v2(name, 100 * MB, 70 * MB)
    assert read_headroom(machine.proc) == Headroom(30 * MB, machine.v2 / name)


def test_version_1_is_found_among_other_controllers(machine: Machine) -> None:
    machine.belongs_to("9:cpu,cpuacct:/b", "4:memory:/a", "0::/")
    machine.limit_v1("a", 100 * MB, 70 * MB)
    assert read_headroom(machine.proc) == Headroom(30 * MB, machine.v1 / "a")


def test_clean_pages_of_files_are_free(machine: Machine) -> None:
    machine.belongs_to("0::/a")
    machine.limit_v2("a", 100 * MB, 99 * MB, files=20 * MB)
    room = read_headroom(machine.proc)
    assert room is not None and room.bytes == 21 * MB


def test_the_narrowest_of_nested_groups_counts(machine: Machine) -> None:
    machine.belongs_to("0::/a/b/c")
    machine.limit_v2("a", 100 * MB, 95 * MB)
    machine.limit_v2("a/b", "max", 50 * MB)
    machine.limit_v2("a/b/c", 60 * MB, 10 * MB)
    assert read_headroom(machine.proc) == Headroom(5 * MB, machine.v2 / "a")


def test_a_group_over_its_limit_leaves_nothing(machine: Machine) -> None:
    machine.belongs_to("0::/a")
    machine.limit_v2("a", 10, 20)
    room = read_headroom(machine.proc)
    assert room is not None and room.bytes == 0


def test_a_container_sees_its_group_at_the_mount_point(machine: Machine) -> None:
    machine.show_mounts(v2_root="/docker/0123")
    machine.belongs_to("0::/docker/0123")
    machine.limit_v2(".", 50 * MB, 45 * MB)
    assert read_headroom(machine.proc) == Headroom(5 * MB, machine.v2)


@pytest.mark.parametrize("path", ["/../elsewhere", "/moved/away", "/"])
def test_a_path_that_leads_nowhere_falls_back_to_the_mount_point(
    machine: Machine, path: str
) -> None:
    machine.show_mounts(v2_root="/docker/0123")
    machine.belongs_to(f"0::{path}")
    machine.limit_v2(".", 50 * MB, 45 * MB)
    room = read_headroom(machine.proc)
    assert room is not None and room.bytes == 5 * MB


@pytest.mark.parametrize("text", ["", "abc\n", "-1\n"])
def test_files_that_make_no_sense_are_no_limit(machine: Machine, text: str) -> None:
    machine.belongs_to("0::/a")
    machine.limit_v2("a", 50 * MB, 45 * MB)
    (machine.v2 / "a" / "memory.current").write_text(text)
    room = read_headroom(machine.proc)
    assert room is None or room.bytes >= 50 * MB


@pytest.mark.parametrize("name", ["cgroup", "mountinfo"])
def test_lists_that_make_no_sense_are_no_limit(machine: Machine, name: str) -> None:
    machine.belongs_to("0::/a")
    machine.limit_v2("a", 50 * MB, 45 * MB)
    (machine.proc / "self" / name).write_text("what - is\n\nthis")
    assert read_headroom(machine.proc) is None


def test_without_proc_there_is_no_limit(tmp_path: Path) -> None:
    assert read_headroom(tmp_path) is None


def test_the_group_of_another_process_is_found_by_its_pid(machine: Machine) -> None:
    machine.belongs_to("0::/a")
    machine.limit_v2("a", 100 * MB, 70 * MB)
    machine.limit_v2("b", 300 * MB, 250 * MB, files=40 * MB)
    (machine.proc / "77").mkdir()
    (machine.proc / "77" / "cgroup").write_text("0::/b\n")
    used = read_usage(77, machine.proc)
    assert used is not None and used.group == machine.v2 / "b"
    assert (used.limit_bytes, used.working_set_bytes) == (300 * MB, 210 * MB)


@pytest.mark.parametrize(
    ("version", "lines", "files", "processors"),
    [
        ("v2", ["0::/a/b"], {"a": "150000 100000\n", "a/b": "max 100000\n"}, 1.5),
        ("v2", ["0::/a"], {"a": "max 100000\n"}, None),
        ("v1", ["3:cpu:/a"], {"a": "50000"}, 0.5),
        ("v1", ["3:cpu:/a"], {"a": "-1"}, None),
    ],
)
def test_the_narrowest_quota_of_processors_counts(
    machine: Machine,
    version: str,
    lines: list[str],
    files: dict[str, str],
    processors: float | None,
) -> None:
    machine.belongs_to(*lines)
    for group, text in files.items():
        folder = (machine.v2 if version == "v2" else machine.v1.parent / "cpu") / group
        folder.mkdir(parents=True, exist_ok=True)
        if version == "v2":
            (folder / "cpu.max").write_text(text)
        else:
            (folder / "cpu.cfs_quota_us").write_text(text)
            (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert read_processors(machine.proc) == processors


def test_kills_for_memory_are_those_of_the_process_s_own_group(machine: Machine) -> None:
    assert read_oom_kills(proc=machine.proc) == 0
    machine.belongs_to("0::/a/b")
    machine.limit_v2("a", 100 * MB, 70 * MB)
    machine.limit_v2("a/b", "max", 60 * MB)
    (machine.v2 / "a" / "memory.events").write_text("low 0\noom 9\noom_kill 9\n")
    (machine.v2 / "a" / "b" / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    assert read_oom_kills(proc=machine.proc) == 1
    usage = read_usage(proc=machine.proc)
    assert usage is not None and (usage.group, usage.oom_kills) == (machine.v2 / "a", 1)


def test_version_1_says_kills_next_to_its_settings(machine: Machine) -> None:
    machine.belongs_to("4:memory:/a")
    machine.limit_v1("a", 100 * MB, 70 * MB)
    text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
    (machine.v1 / "a" / "memory.oom_control").write_text(text)
    assert read_oom_kills(proc=machine.proc) == 3
