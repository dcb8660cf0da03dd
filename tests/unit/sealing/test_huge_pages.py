"""When a sealed heap goes into huge pages: its size, the system's setting, a limit."""

import os
from pathlib import Path

import pytest

from pasture.interpreter import native
from pasture.proc.cgroup import Headroom
from pasture.proc.own_memory import OwnMemory
from pasture.sealing import headroom, huge_pages

HUGE_BYTES = 1 << 21


COUNTS = {"ranges": 5, "collapsed": 3, "refused": 1}


class Extension:
    counts = COUNTS

    limit_ns = 2_500_000_000

    def collapse(self, *given: int) -> dict[str, int]:
        assert given == (HUGE_BYTES, 128, self.limit_ns)
        return self.counts


@pytest.fixture(autouse=True)
def large_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(huge_pages, "_SETTINGS", tmp_path)
    monkeypatch.setattr(huge_pages, "native", Extension)
    monkeypatch.setattr(huge_pages, "_looked_at", (0, 0))
    monkeypatch.setattr(huge_pages, "read_own_memory", lambda: OwnMemory(1 << 30, 1 << 29))
    (tmp_path / "enabled").write_text("always [madvise] never\n")
    (tmp_path / "hpage_pmd_size").write_text(f"{HUGE_BYTES}\n")
    return tmp_path


def test_a_large_heap_is_collapsed_and_its_bytes_are_counted() -> None:
    assert huge_pages.collapse() == {**COUNTS, "bytes": 3 * HUGE_BYTES}


def test_a_larger_heap_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    large = OwnMemory(9_000_000_000, 8_000_000_000)
    monkeypatch.setattr(huge_pages, "read_own_memory", lambda: large)
    monkeypatch.setattr(Extension, "limit_ns", 8_000_000_000)
    assert huge_pages.collapse()["collapsed"] == 3


def test_what_was_looked_at_is_again_when_it_has_grown_and_in_a_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for megabytes in (512, 520, 600, 600):
        memory = OwnMemory(1 << 30, megabytes << 20)
        monkeypatch.setattr(huge_pages, "read_own_memory", lambda memory=memory: memory)
        found.append(huge_pages.collapse()["collapsed"])
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert (*found, huge_pages.collapse()["collapsed"]) == (3, 0, 3, 0, 3)


def test_a_small_heap_is_left_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    small = OwnMemory(1 << 30, huge_pages.MIN_BYTES - 1)  # most of it files
    monkeypatch.setattr(huge_pages, "read_own_memory", lambda: small)
    assert set(huge_pages.collapse().values()) == {0}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda folder: (folder / "enabled").write_text("always madvise [never]"), "says never"),
        (lambda folder: (folder / "hpage_pmd_size").unlink(), "does not have huge pages"),
    ],
)
def test_what_the_system_forbids_is_not_done(change, why: str, large_process: Path) -> None:  # type: ignore[no-untyped-def]
    change(large_process)
    with pytest.raises(NotImplementedError, match=why):
        huge_pages.collapse()


def test_a_memory_limit_and_a_kernel_that_takes_none_are_reasons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = headroom.Budget(Headroom(10_000_000, Path("/pod")), 1 << 29)
    with monkeypatch.context() as patch:
        patch.setattr(headroom, "look", lambda: full)
        with pytest.raises(NotImplementedError, match="memory limit of /pod"):
            huge_pages.collapse()
    with monkeypatch.context() as patch:
        patch.setattr(huge_pages, "read_own_memory", Path("/no/such/file").read_text)
        with pytest.raises(NotImplementedError, match="the size of the heap is unknown"):
            huge_pages.collapse()
    monkeypatch.setattr(Extension, "counts", {"ranges": 5, "collapsed": 0, "refused": 5})
    with pytest.raises(NotImplementedError, match="collapsed no range"):
        huge_pages.collapse()


def test_the_extension_refuses_what_is_no_size() -> None:
    with pytest.raises(ValueError, match="no size of a page"):
        native().collapse(3, 1, 1)
