"""tools/lock: what it takes for up to date, and what it does not pin."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.once

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "tools" / "lock"
HASH = "--hash=sha256:" + "0" * 64


@pytest.fixture
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("lock")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of nothing but the command, pyproject.toml and the pins."""
    (tmp_path / "tools").mkdir()
    shutil.copy(SCRIPT, tmp_path / "tools")
    (tmp_path / "packages" / "lab").mkdir(parents=True)
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    shutil.copy(REPOSITORY / "packages" / "lab" / "pyproject.toml", tmp_path / "packages" / "lab")
    shutil.copytree(REPOSITORY / "requirements", tmp_path / "requirements")
    return tmp_path


def check(tree: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(tree / "tools" / "lock"), "--check"]
    return subprocess.run(command, capture_output=True, text=True)


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_the_pins_agree_with_the_project(tree: Path) -> None:
    done = check(tree)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_new_bound_calls_for_new_pins(tree: Path) -> None:
    replace(tree / "pyproject.toml", "pytest>=8.3", "pytest>=8.4")
    done = check(tree)
    assert done.returncode == 1
    assert "do not agree" in done.stderr and "make lock" in done.stderr


def test_a_lab_that_cannot_be_read_is_named(tree: Path) -> None:
    (tree / "packages" / "lab" / "pyproject.toml").unlink()
    done = check(tree)
    assert done.returncode == 1
    assert done.stderr.startswith("error: packages/lab/pyproject.toml cannot be read")


def test_pins_that_were_edited_by_hand_are_found(tree: Path) -> None:
    replace(tree / "requirements" / "lint.txt", "ruff==", "ruff==0.")
    done = check(tree)
    assert done.returncode == 1 and "requirements/lint.txt" in done.stderr


@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: file.write_bytes(b"\xff")])
def test_pins_that_cannot_be_read_are_named(tree: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(tree / "requirements" / "demo.txt")
    done = check(tree)
    assert done.returncode == 1
    assert "requirements/demo.txt cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["[project", "[tool.x]\n", "project = 3\n"])
def test_a_broken_project_is_an_error_with_a_hint(tree: Path, text: str) -> None:
    (tree / "pyproject.toml").write_text(text)
    done = check(tree)
    assert done.returncode == 1
    assert done.stderr.startswith("error: pyproject.toml") and "hint: " in done.stderr


def test_versions_with_hashes_are_pins(tool: ModuleType) -> None:
    tool.check_pins(
        "test",
        f"a-b.c==1.0.post1 \\\n    {HASH} \\\n    {HASH}\n    # via pasture\n"
        f"redis[hiredis]==2!3.0+local ; python_full_version < '3.12' \\\n    {HASH}\n",
    )


@pytest.mark.parametrize(
    "pins",
    [
        "click==8.1\n",
        f"click>=8.1 \\\n    {HASH}\n",
        f"click @ https://packages.test/click.whl \\\n    {HASH}\n",
        f"--index-url https://packages.test/simple\nclick==8.1 \\\n    {HASH}\n",
        f"--find-links /wheels\nclick==8.1 \\\n    {HASH}\n",
        "-e .\n",
    ],
)
def test_what_is_no_version_with_a_hash_is_not_pinned(tool: ModuleType, pins: str) -> None:
    with pytest.raises(tool.LockError, match="no version with a hash"):
        tool.check_pins("test", pins)


def test_every_file_holds_nothing_but_versions_with_hashes(tool: ModuleType) -> None:
    for name in tool.SOURCES:
        tool.check_pins(name, (REPOSITORY / "requirements" / f"{name}.txt").read_text())


def test_all_files_pin_the_same_versions(tool: ModuleType) -> None:
    """What two files pin on some interpreter is pinned by both to the same versions."""
    versions: dict[str, dict[str, set[str]]] = {}
    for name in tool.SOURCES:
        text = (REPOSITORY / "requirements" / f"{name}.txt").read_text()
        for package, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE):
            versions.setdefault(package, {}).setdefault(name, set()).add(version)
    assert len(versions) > 50
    for package, by_file in versions.items():
        widest = max(by_file.values(), key=len)
        assert all(pinned <= widest for pinned in by_file.values()), package


def test_every_group_of_the_project_is_pinned(tool: ModuleType) -> None:
    """A group that does nothing but include others needs no file."""
    groups = tool.read_project(REPOSITORY)["dependency-groups"]
    named = {name for name, items in groups.items() if any(isinstance(i, str) for i in items)}
    pinned = {word for words in tool.SOURCES.values() for word in words}
    assert named and named <= pinned and named <= set(tool.EVERYTHING)
