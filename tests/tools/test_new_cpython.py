"""Which releases of CPython pasture has not been tried on."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = runpy.run_path(str(ROOT / "tools/new-cpython"))
pytestmark = pytest.mark.once


def test_later_patch_releases_of_supported_versions_are_new() -> None:
    offered = [(3, 13, 9), (3, 13, 10), (3, 14, 1), (3, 16, 0)]
    seen = [(3, 13, 9), (3, 13, 2)]

    assert TOOL["new"](offered, seen, {(3, 13), (3, 14)}) == ["3.13.10", "3.14.1"]


def test_rows_of_the_page_and_classifiers_are_read() -> None:
    page = (ROOT / "docs/results/interpreters.md").read_text()
    project = (ROOT / "pyproject.toml").read_text()

    assert {one[:2] for one in TOOL["tried"](page)} == TOOL["supported"](project)
