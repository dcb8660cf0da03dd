"""A snapshot is another process' word: it is doubted, record by record."""

import json
import os
import stat
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture.errors import UsageError
from pasture.interpreter import native
from pasture.sealing.snapshot import MAGIC, path_for
from pasture_tools.explain import snapshot
from pasture_tools.explain.extents import Windows
from pasture_tools.explain.snapshot import NO_OWNER, RECORD, open_snapshot

HEAD = {
    "policy": "seal",
    "hexversion": 0x030E0000,
    "fields": native().field_offsets(),
}
PAGE = 0x7F0000000000
Write = Callable[..., Path]

pytestmark = [pytest.mark.interpreter]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(records: Any = (), **head: Any) -> Path:
        rows = np.array(list(records), dtype=RECORD)
        text = json.dumps({"pid": os.getpid(), **HEAD, **head}).encode()
        path = tmp_path / "snapshot"
        path.write_bytes(MAGIC + text + b"\n" + rows.tobytes())
        return path

    return write


def extents_of(path: Path) -> list[tuple[int, int]]:
    pages = np.arange(PAGE, PAGE + 40 * 4096, 4096, dtype=np.uint64)
    windows = Windows(open_snapshot(path), pages, 4)
    found: list[tuple[int, int]] = []
    for window in range(10):
        extents = windows.extents(window)
        found += zip(extents.starts.tolist(), extents.ends.tolist(), strict=True)
    return found


def test_the_environment_names_the_file() -> None:
    assert path_for(7, {"PASTURE_SNAPSHOT": "/run/heap-{pid}"}) == Path("/run/heap-7")
    assert path_for(7, {}) is None


def test_a_snapshot_is_for_its_owner_alone(tmp_path: Path) -> None:
    from pasture.sealing import snapshot as written

    before = os.umask(0)
    try:
        path = tmp_path / "snapshot"
        count = written.write(path, "seal")
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    assert len(open_snapshot(path).records) == count


def test_what_the_head_was_made_of_is_gone_when_the_records_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pasture.sealing import snapshot as written

    class Rows(list[Any]):
        pass

    made: list[weakref.ref[Rows]] = []

    class Native:
        def field_offsets(self) -> Rows:
            rows = Rows(native().field_offsets())
            made.append(weakref.ref(rows))
            return rows

        def write_snapshot(self, number: int) -> int:
            return sum(one() is not None for one in made)

    monkeypatch.setattr(written, "native", Native)
    assert written.write(tmp_path / "snapshot", "seal") == 0
    assert made


def test_a_snapshot_is_not_written_through_a_link(tmp_path: Path) -> None:
    from pasture.sealing import snapshot as written

    (tmp_path / "victim").write_text("precious")
    (tmp_path / "snapshot").symlink_to("victim")

    with pytest.raises(OSError, match="not a plain file"):
        written.write(tmp_path / "snapshot", "seal")
    assert (tmp_path / "victim").read_text() == "precious"


def test_records_are_found_again_in_the_window_of_their_page(write: Write) -> None:
    records = [(PAGE + i * 4096 + 16, 0, 64, NO_OWNER, 0, 16) for i in range(40)]

    assert extents_of(write(records)) == [
        (PAGE + i * 4096, PAGE + i * 4096 + 80) for i in range(40)
    ]


@pytest.mark.parametrize(
    "record",
    [
        (2**64 - 8, 0, 64, NO_OWNER, 0, 0),
        (8, 0, 64, NO_OWNER, 0, 32),
        (PAGE, 0, 2**63, NO_OWNER, 0, 0),
        (PAGE, 0, 64, 7, 0, 0),
        (PAGE, 0, 64, NO_OWNER, 99, 0),
        (PAGE + 4096, 0, 64, NO_OWNER, 0, 4000),
    ],
)
def test_a_record_that_cannot_be_one_stands_for_nothing(
    write: Write, record: tuple[int, ...]
) -> None:
    assert extents_of(write([record, (PAGE + 16, 5, 16, NO_OWNER, 0, 0)])) == [
        (PAGE + 16, PAGE + 32)
    ]


@pytest.mark.parametrize(
    "head",
    [
        {"pid": -1},
        {"pid": "x"},
        {"pid": 1 << 70},
        {"hexversion": None},
        {"fields": []},
        {"fields": 5},
        {"fields": [["type"]]},
        {"fields": [*HEAD["fields"], ["type", "tp_name", -8]]},
        {"fields": [*HEAD["fields"], ["type", "tp_name", 1 << 40]]},
        {"fields": [*HEAD["fields"], ["keys", "dk_kind", 4000]]},
        {"fields": [*HEAD["fields"], ["keys", "dk_indices", 16]]},
        {"fields": [*HEAD["fields"], [["type"], "tp_name", 8]]},
        {"fields": HEAD["fields"] * 100},
    ],
)
def test_a_head_that_cannot_be_one_is_an_error_with_a_hint(
    write: Write, head: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="is not a heap snapshot") as caught:
        open_snapshot(write(**head))
    assert "PASTURE_SNAPSHOT" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        MAGIC,
        MAGIC + b"{" * 5000 + b"\n",
        MAGIC + b"[" * 200_000 + b"\n",
        MAGIC * 2,
    ],
)
def test_a_file_that_is_none_is_an_error_with_a_hint(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "snapshot").write_bytes(content)

    with pytest.raises(UsageError, match="is not a heap snapshot"):
        open_snapshot(tmp_path / "snapshot")


def test_a_snapshot_that_is_cut_short_while_it_is_read_is_an_error(write: Write) -> None:
    path = write([(PAGE, 0, 64, NO_OWNER, 0, 0)] * 1000)
    opened = open_snapshot(path)
    os.truncate(path, 4000)

    with pytest.raises(UsageError, match="ends too early"):
        Windows(opened, np.array([PAGE], dtype=np.uint64), 4)


def test_a_snapshot_without_end_is_refused(write: Write) -> None:
    path = write()
    os.truncate(path, 1 << 40)

    with pytest.raises(UsageError, match="more than"):
        open_snapshot(path)


def test_the_policy_that_a_snapshot_names_is_cut(write: Write) -> None:
    assert len(open_snapshot(write(policy="x" * 10_000)).policy) < 200


def test_every_field_that_is_taken_for_granted_is_one_that_is_written() -> None:
    assert snapshot._checked_fields(HEAD["fields"])["type"]["tp_name"] > 0
