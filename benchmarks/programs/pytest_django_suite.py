"""A plug-in that has pytest run Django's own tests, as `runtests.py` of Django sets them up.

Each worker is set up when it is configured, and has a database of its own in memory.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        return
    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    os.environ["DJANGO_SETTINGS_MODULE"] = "test_sqlite"
    sys.path.insert(0, str(config.rootpath / "tests"))
    import runtests  # type: ignore[import-not-found]
    from django.test.utils import setup_test_environment  # type: ignore[import-untyped,unused-ignore]

    runtests.setup_run_tests(0, None, None, [Path(label).name for label in config.args])
    setup_test_environment()


@pytest.fixture(scope="session", autouse=True)
def databases() -> Iterator[None]:
    from django.test.utils import (
        setup_databases,
        teardown_databases,
    )

    made = setup_databases(verbosity=0, interactive=False)
    yield
    teardown_databases(made, verbosity=0)
