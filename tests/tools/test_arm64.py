"""tools/arm64: what it puts on the machine that it boots, and what it makes of its console."""

import io
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("arm64")


def entries_of(data: bytes) -> list[tuple[str, int, bytes]]:
    """Read an archive as the kernel does: heads of 110 characters, all padded to 4 bytes."""
    found, at = [], 0
    while at < len(data):
        head = data[at : at + 110]
        assert head[:6] == b"070701"
        fields = [int(head[i : i + 8], 16) for i in range(6, 110, 8)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        at += -(-(110 + name_size) // 4) * 4
        found.append((name, mode, data[at : at + size]))
        at += -(-size // 4) * 4
    return found


def test_the_archive_holds_names_modes_and_contents(tool: ModuleType) -> None:
    entries = [("dev", 0o040755, b""), ("init", 0o100755, b"#!/x\n"), ("lib", 0o120777, b"usr/lib")]
    file = io.BytesIO()
    tool.write_archive(file, iter(entries))
    assert entries_of(file.getvalue()) == [*entries, ("TRAILER!!!", 0, b"")]


def test_no_file_of_the_machine_stands_before_its_folder(tool: ModuleType, tmp_path: Path) -> None:
    root, home = tmp_path / "root", tmp_path / "home"
    for path in (root / "usr/lib/python3.13/json", home / "src", root / "usr/share/doc"):
        path.mkdir(parents=True)
        (path / "file").write_text("")
    names = [name for name, _, _ in tool._entries(root, home, "3.13", "")]
    for name in names:
        folder = name.rpartition("/")[0]
        assert not folder or names.index(folder) < names.index(name)
    assert "home/src/file" in names
    assert not any("usr/share" in name for name in names)


class Machine:
    """A console with some lines."""

    def __init__(self, *lines: bytes) -> None:
        self.stdout: Any = lines


def test_the_status_of_the_program_is_the_last_line_of_the_console(
    tool: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.follow(Machine(b"hello\r\n", b"pasture-exit-status 3\r\n")) == 3
    assert capsys.readouterr().out == "hello\n"


def test_a_machine_that_ends_without_a_status_is_an_error(tool: ModuleType) -> None:
    with pytest.raises(tool.Problem, match="without a word"):
        tool.follow(Machine(b"Kernel panic\r\n"))


def test_a_missing_emulator_is_named_with_its_package(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tool.Problem, match="qemu-system-aarch64 .*Debian: qemu-system-arm"):
        tool.require("qemu-system-aarch64")
