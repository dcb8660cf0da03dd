"""Which packages `pasture doctor` names for counting references of immortal objects."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pasture_tools.doctor import checks, modules
from pasture_tools.doctor.findings import Finding


def install(site: Path, name: str, tag: str, *modules: str) -> list[str]:
    """Lay out a package as an installer does; return the paths of its modules."""
    info = site / f"{name}.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text("".join(f"{module},,\n" for module in modules))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}-manylinux_2_28_x86_64\n")
    return [str(site / module) for module in modules]


def look(monkeypatch: pytest.MonkeyPatch, *files: str, counts: bool = True) -> list[Finding]:
    needs = frozenset({"_Py_Dealloc"} if counts else ())
    monkeypatch.setattr(modules, "read_elf", lambda file: SimpleNamespace(needs=needs))
    found = tuple(map(modules.read_module, files))
    seen = SimpleNamespace(files=("/usr/bin/python3.14", *files), modules=found)
    return list(checks.stable_abi(seen))  # type: ignore[arg-type]


def test_the_package_is_named_with_its_version_and_not_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    files = install(site, "bcrypt-3.2.0", "cp36-abi3", "bcrypt/_a.abi3.so", "bcrypt/_b.abi3.so")
    [finding] = look(monkeypatch, *files)
    assert finding.what == (
        "immortal objects are not shared where these extensions count references inline: "
        "bcrypt 3.2.0 (built for cp36-abi3)"
    )


def test_packages_of_which_there_is_no_other_build_are_named_once_and_are_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    files = install(site, "cryptography-50.0.2", "cp311-abi3", "cryptography/_rust.abi3.so")
    files += install(site, "psutil-7.2.2", "cp36-abi3", "psutil/_linux.abi3.so")
    [finding] = look(monkeypatch, *files)
    assert not finding.is_obstacle and not finding.fix
    assert finding.what.partition(": ")[2].startswith(
        "cryptography 50.0.2 (built for cp311-abi3), psutil 7.2.2 ("
    )


def test_a_build_that_knows_immortality_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = install(tmp_path / "site-packages", "new-1.0", "cp312-abi3", "new.abi3.so")
    [finding] = look(monkeypatch, *files)
    assert "no extension" in finding.what


def test_a_module_that_asks_the_interpreter_to_count_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = install(tmp_path / "site-packages", "kind-1.0", "cp38-abi3", "kind.abi3.so")
    [finding] = look(monkeypatch, *files, counts=False)
    assert "no extension" in finding.what


def test_a_module_of_no_package_is_named_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    [finding] = look(monkeypatch, "/srv/app/own.abi3.so")
    assert finding.what.endswith(": own.abi3.so (built for an unknown version)")
