"""What holds for every test: the same environment everywhere, and a mark for its folder."""

import os
from pathlib import Path

import pytest

MARKED_FOLDERS = ("hostile", "integration", "native")
MEANT_FOR_TESTS = {"PASTURE_MODEL_GRAPHS", "PYTHONMALLOC"}

# A shell that sets PYTHONUNBUFFERED, say, would hide what a user's shell shows.
for name in [name for name in os.environ if name.startswith(("PYTHON", "PASTURE_"))]:
    if name not in MEANT_FOR_TESTS:
        del os.environ[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = Path(item.path).relative_to(Path(__file__).parent).parts[0]
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
