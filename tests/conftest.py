"""Marks for every test by the folder it lies in, so that `-m "not integration"` works."""

from pathlib import Path

import pytest

MARKED_FOLDERS = ("integration", "native")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = Path(item.path).relative_to(Path(__file__).parent).parts[0]
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
