"""Folders of the user's cache: whose they are, and where."""

import os
from pathlib import Path

import pytest

from pasture.errors import UsageError
from pasture_tools import user_cache

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_cache_that_every_user_may_write_to_is_refused(cache: Path) -> None:
    (cache / "pasture").mkdir(parents=True)
    (cache / "pasture").chmod(0o777)

    with pytest.raises(UsageError, match="every user may write") as raised:
        user_cache.folder("trial")

    assert "XDG_CACHE_HOME" in raised.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_a_cache_of_another_user_is_refused(cache: Path) -> None:
    (cache / "pasture" / "trial").mkdir(parents=True)
    os.chown(cache / "pasture", 65534, 65534)

    with pytest.raises(UsageError, match="belongs to user 65534"):
        user_cache.folder("trial")


def test_a_cache_that_is_a_file_is_refused(cache: Path) -> None:
    cache.write_text("")

    with pytest.raises(UsageError, match="cannot keep anything"):
        user_cache.folder("trial")


def test_a_relative_cache_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert user_cache.folder("trial") == tmp_path / ".cache" / "pasture" / "trial"
