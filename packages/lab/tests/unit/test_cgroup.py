"""Where a group with a limit would be made, and what is said where it cannot be."""

from pathlib import Path

import pytest

from pasture.errors import NotMeasurable
from pasture_lab.processes import cgroup


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose cgroups are folders; tests write its two files."""
    monkeypatch.setattr(cgroup, "_MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(cgroup, "_OWN", tmp_path / "own")
    (tmp_path / "tree" / "user" / "shell").mkdir(parents=True)
    return tmp_path


def test_version_1_is_below_our_own_group_of_the_memory_controller(machine: Path) -> None:
    (machine / "mounts").write_text(
        f"cgroup {machine}/other cgroup rw,cpu 0 0\n"
        f"cgroup {machine}/tree cgroup rw,relatime,memory 0 0\n"
        f"cgroup2 {machine}/two cgroup2 rw 0 0\n"
    )
    (machine / "own").write_text("4:memory:/user/shell\n1:cpu:/\n0::/\n")
    assert cgroup._own_group() == (1, machine / "tree" / "user" / "shell")


def test_version_2_without_a_memory_controller_is_said_and_leaves_nothing(machine: Path) -> None:
    (machine / "mounts").write_text(f"cgroup2 {machine}/tree cgroup2 rw 0 0\n")
    (machine / "own").write_text("0::/user/shell\n")
    with pytest.raises(NotMeasurable, match="no memory controller"), cgroup.memory_group():
        pass
    assert list((machine / "tree" / "user" / "shell").iterdir()) == []


def test_a_group_that_may_not_be_made_is_said_with_a_hint(machine: Path) -> None:
    (machine / "mounts").write_text(f"cgroup2 {machine}/tree cgroup2 rw 0 0\n")
    (machine / "own").write_text("0::/gone\n")
    with pytest.raises(NotMeasurable, match="no cgroup can be made") as caught:
        with cgroup.memory_group():
            pass
    assert "root" in caught.value.hint


def test_a_machine_without_cgroups_is_said(machine: Path) -> None:
    (machine / "mounts").write_text("proc /proc proc rw 0 0\n")
    (machine / "own").write_text("0::/\n")
    with pytest.raises(NotMeasurable, match="has no cgroups"), cgroup.memory_group():
        pass


def test_kills_are_read_in_both_versions(machine: Path) -> None:
    group = machine / "group"
    group.mkdir()
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 25\n")
    (group / "memory.events").write_text("low 0\noom 9\noom_kill 7\noom_group_kill 0\n")
    assert cgroup.MemoryGroup(group, 1).kills() == 25
    assert cgroup.MemoryGroup(group, 2).kills() == 7
