"""tools/builds: what it lists, how it configures upstream's source, and what it takes up again.

Nothing is fetched and nothing compiled: the cache is a fresh folder, and programs are small
scripts that stand for configure and make.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load_tool: Callable[[str], ModuleType]
) -> ModuleType:
    """The script as a module, with an empty cache and a pyenv that has no versions."""
    module = load_tool("builds")
    monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return module


def named(tool: ModuleType, name: str) -> Any:
    return next(build for build in tool.all_builds() if build.name == name)


# --- The list ---------------------------------------------------------------------------


def test_no_two_builds_have_one_name_and_each_name_is_good_for_a_folder(tool: ModuleType) -> None:
    names = [build.name for build in tool.all_builds()]
    assert len(names) == len(set(names)) > 20
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name) for name in names)


def test_every_build_is_installed_in_some_way_and_only_such_are_refused(tool: ModuleType) -> None:
    for build in tool.all_builds():
        assert build.ways and set(build.refused) <= set(build.ways) <= set(tool.WAYS), build.name


def test_versions_that_pyenv_keeps_are_found_where_they_can_run(
    tool: ModuleType, tmp_path: Path
) -> None:
    for version in ("3.12.1", "3.9.18", "3.13.0"):
        (tmp_path / "pyenv" / "versions" / version / "bin").mkdir(parents=True)
    (tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python3.12").touch()
    found = [build.name for build in tool.of_the_host() if build.source == "pyenv"]
    assert found == ["pyenv-3.12.1"]


def test_the_incremental_collector_is_to_be_refused_and_what_came_after_is_not(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = {"artifact": "org:x:{version}", "versions": ["3.14.3-1.5", "3.14.5-1.5", "3.13.3-1.5"]}
    monkeypatch.setitem(tool.SETTINGS, "maven", jars)
    assert [bool(build.refused) for build in tool.of_maven()] == [True, False, False]


# --- Upstream's source ------------------------------------------------------------------


def test_a_source_that_is_not_to_be_had_is_asked_for_once_and_the_newest_releases_words_stay(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool.SourceArchive, "refresh", lambda self: None)

    asked: list[str] = []

    def no_tarball(archive: Any, *words: str, cwd: Path) -> None:
        asked.append(archive.release)
        first = {"sid": "E: Failed to fetch http://mirror/a/b.tar.xz  404  Not Found [IP: ::1 80]"}
        other = f"E: no source in {archive.release}"
        words_of_apt = f"apt failed:\n{first.get(archive.release, other)}\nE: Failed to fetch some."
        raise tool.interpreters.InterpreterError(words_of_apt)

    monkeypatch.setattr(tool.SourceArchive, "apt", no_tarball)
    with pytest.raises(tool.BuildError) as caught:
        tool.fetch_source("3.14")
    assert str(caught.value).endswith("of 3.14: E: Failed to fetch b.tar.xz  404  Not Found")
    asked.clear()
    with pytest.raises(tool.BuildError, match="404  Not Found"):
        tool.fetch_source("3.14")
    assert asked == []


def test_a_mirror_that_could_not_be_reached_is_asked_again(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool.SourceArchive, "refresh", lambda self: None)

    def no_network(archive: Any, *words: str, cwd: Path) -> None:
        raise tool.interpreters.InterpreterError("apt failed:\nE: Temporary failure resolving")

    def tarball(archive: Any, *words: str, cwd: Path) -> None:
        (cwd / "python3.14_3.14.9.orig.tar.xz").touch()

    monkeypatch.setattr(tool.SourceArchive, "apt", no_network)
    with pytest.raises(tool.BuildError, match="Temporary failure"):
        tool.fetch_source("3.14")
    monkeypatch.setattr(tool.SourceArchive, "apt", tarball)
    assert tool.fetch_source("3.14").name == "python3.14_3.14.9.orig.tar.xz"


@pytest.fixture
def source(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An unpacked source whose configure writes a Makefile, and whose `make` fails once."""
    folder = tmp_path / "source"
    folder.mkdir()
    prefix = tool.CACHE / "upstream-3.13-debug"
    (folder / "Makefile.in").write_text(
        "all:\n\techo made >> steps; test -e may-pass\n"
        f"install:\n\tmkdir {prefix}/bin; touch {prefix}/bin/python3.13d; cp steps {prefix}\n"
    )
    configure = folder / "configure"
    configure.write_text(f"#!/bin/sh\necho configured >> steps; cp {folder}/Makefile.in Makefile\n")
    configure.chmod(0o755)
    monkeypatch.setattr(tool, "unpack_source", lambda minor: folder)
    return folder


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")
def test_a_build_that_broke_off_goes_on_and_is_not_configured_again(
    tool: ModuleType, source: Path
) -> None:
    build = named(tool, "upstream-3.13-debug")
    with pytest.raises(tool.BuildError, match=r"make failed; see .*upstream-3.13-debug\.log"):
        tool.obtain(build)
    (tool.CACHE / "work" / build.name / "may-pass").touch()
    python = tool.obtain(build)
    assert python == tool.CACHE / build.name / "bin" / "python3.13d"
    assert (tool.CACHE / build.name / "steps").read_text().split() == ["configured", "made", "made"]
    assert not (tool.CACHE / "work" / build.name).exists()


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")
def test_a_build_that_is_there_is_not_made_again(
    tool: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = named(tool, "upstream-3.13-debug")
    prefix = tool.CACHE / build.name
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python3.13d").touch()
    (prefix / "built").touch()
    assert tool.obtain(build) == prefix / "bin" / "python3.13d"
    assert not (tool.CACHE / "work").exists()
