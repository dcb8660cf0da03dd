"""A plug-in in workers of pytest-xdist: the time of the first test, private memory at the end."""

import json
import os
import time
from pathlib import Path

import pytest

from pasture.proc.smaps import own_private_bytes

_first_test: list[float] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart() -> None:
    if not _first_test:
        _first_test.append(time.perf_counter())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput") and _first_test:
        note = {"first_test": _first_test[0], "private_bytes": own_private_bytes()}
        folder = Path(session.config.option.xmlpath).parent
        (folder / f"note-{os.getpid()}").write_text(json.dumps(note))
