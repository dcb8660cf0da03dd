"""What is known of a parent, and what is said to be missing."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("numpy")

from pasture.errors import UsageError
from pasture.proc.maps import Mapping
from pasture_tools.explain import sources
from pasture_tools.explain.sources import find_sources

HERE = ".".join(map(str, sys.version_info[:2]))


def parent(version: str) -> Any:
    path = f"/usr/bin/python{version}" if version else "/usr/bin/ruby"
    return SimpleNamespace(pid=7, mappings=(Mapping(0, 4096, "r-xp", path),))


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found: dict[str, str] = {}
    monkeypatch.setattr(sources, "read_environ", lambda pid: found)
    return found


def snapshot_of(monkeypatch: pytest.MonkeyPatch, pid: int, hexversion: int) -> Any:
    snapshot = SimpleNamespace(pid=pid, hexversion=hexversion, fields={"object": {}})
    monkeypatch.setattr(sources, "open_snapshot", lambda path, owners: snapshot)
    return snapshot


def test_without_a_snapshot_offsets_are_those_of_this_interpreter() -> None:
    found = find_sources(parent(HERE), None)
    assert found.snapshot is None and found.same_version and found.fields
    assert len(found.missing) == 1 and "PASTURE_SNAPSHOT" in found.missing[0]


@pytest.mark.parametrize(("version", "shown"), [("3.4", "3.4"), ("", "of an unknown version")])
def test_objects_of_another_interpreter_are_not_guessed_at(version: str, shown: str) -> None:
    found = find_sources(parent(version), None)
    assert found.fields is None and not found.same_version
    assert found.missing[1] == (
        f"the process runs Python {shown}, pasture runs {HERE}: its objects cannot be "
        "recognised; use a pasture on the same version"
    )


def test_a_snapshot_brings_offsets_of_any_version(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = snapshot_of(monkeypatch, 7, 0x03040000)
    found = find_sources(parent(HERE), Path("snapshot"))
    assert found.snapshot is snapshot and not found.same_version
    assert found.fields == {"object": {}}
    assert "counters of code are not separated" in found.missing[0]


def test_a_snapshot_of_another_process_is_refused_if_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], tmp_path: Path
) -> None:
    snapshot_of(monkeypatch, 8, sys.hexversion)
    with pytest.raises(UsageError, match="of process 8, not of 7"):
        find_sources(parent(HERE), tmp_path / "snapshot")
    (tmp_path / "snapshot").touch()
    environ["PASTURE_SNAPSHOT"] = str(tmp_path / "snapshot")
    found = find_sources(parent(HERE), None)
    assert found.snapshot is None and "of process 8, not of 7" in found.missing[0]
