"""The server of an exporter, by what names it."""

import os
from pathlib import Path

import pytest

from pasture_tools.metrics import named
from pasture_tools.metrics.named import Named

pytestmark = pytest.mark.once

GROUPS = {
    "7": "0::/system.slice/mysite.service\n",
    "8": "3:memory:/system.slice/other.service/web\n0::/\n",
}


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two servers: 7 began before 8."""
    commands = {7: ("gunicorn: master [mysite]",), 8: ("python", "other.py")}
    monkeypatch.setattr("pasture.proc.tree.find_masters", lambda: (7, 8))
    monkeypatch.setattr("pasture.proc.tree.command_of", lambda pid: commands.get(pid, ()))
    monkeypatch.setattr(named, "start_time", lambda pid: pid)
    monkeypatch.setattr(named, "read_text", lambda path: GROUPS[path.split("/")[2]])


@pytest.mark.parametrize(
    ("name", "pid"),
    [
        ("mysite.service", 7),
        ("other.service", 8),
        ("site.service", None),
        ("mysite", 7),
        ("nothing", None),
        ("", 8),
    ],
)
def test_a_unit_is_one_of_the_control_groups_and_a_name_is_a_part_of_the_command(
    name: str, pid: int | None
) -> None:
    said: list[str] = []
    assert Named(name, said.append)() == pid
    assert said == ([] if pid is None else [f"is process {pid}"])


@pytest.mark.parametrize("content", ["", "nonsense", "9" * 30, "1\n" * 99])
def test_a_pid_file_that_is_none_names_no_server(tmp_path: Path, content: str) -> None:
    (tmp_path / "pid").write_text(content)
    assert Named(str(tmp_path / "pid"), print)() is None
    os.mkfifo(tmp_path / "fifo")
    assert Named(str(tmp_path / "fifo"), print)() is None


def test_a_pid_file_names_processes_of_its_user_alone(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("gives a file to another user")
    file = tmp_path / "pid"
    file.write_text(f"{os.getpid()}\n")
    assert Named(str(file), print)() == os.getpid()
    os.chown(file, 12345, 12345)
    assert Named(str(file), print)() is None
