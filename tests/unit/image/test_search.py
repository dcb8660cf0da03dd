"""Folders in which an image's modules are looked for: what counts in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pasture_image.build.search import entries


@pytest.mark.parametrize(
    ("entry", "counts"),
    [
        ("app.py", True),
        ("app.cpython-314-x86_64-linux-gnu.so", True),
        ("app.pyc", True),
        ("app.log", False),
        ("app", False),
        ("app.py~", False),
        (".app.py.swp", False),
        ("other.py", False),
        ("extra.pth", False),
        ("other-1.dist-info", True),
    ],
)
def test_only_what_could_be_imported_under_a_loaded_name_counts(
    tmp_path: Path, entry: str, counts: bool
) -> None:
    (tmp_path / entry).write_text("")
    assert entries(str(tmp_path), {"app", "*.dist-info"}) == ({entry} if counts else set())
