"""What holds for every test of the lab: the environment of the other tests, and their marks."""

import os
from pathlib import Path

import pytest

for name in [name for name in os.environ if name.startswith(("PYTHON", "PASTURE_"))]:
    del os.environ[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent / "integration" in item.path.parents:
            item.add_marker("integration")
