"""What holds for every test: the same environment everywhere, and a mark for its folder."""

import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

ONCE_ON = (3, 14)
"""Where tests run that are marked `once`: what they look at is the same on every interpreter."""

MARKS_OF_FOLDERS = {
    "hostile": ("hostile", "interpreter"),
    "integration": ("integration",),
    "native": ("native", "interpreter"),
}
MEANT_FOR_TESTS = {"PASTURE_EMULATED", "PASTURE_LONG", "PASTURE_MODEL_GRAPHS", "PYTHONMALLOC"}

# A shell that sets PYTHONUNBUFFERED, say, would hide what a user's shell shows, and one that names
# the settings of another site would have Celery load them.
for name in [one for one in os.environ if one.startswith(("PYTHON", "PASTURE_", "DJANGO_"))]:
    if name not in MEANT_FOR_TESTS:
        del os.environ[name]

# A gunicorn that a test starts binds its control socket here, unless a test names another place: a
# server of the same user keeps its own.
_runtime = tempfile.TemporaryDirectory(prefix="pasture-tests-")
os.environ["XDG_RUNTIME_DIR"] = _runtime.name

# In the background of a shell interrupts are ignored, under nohup hangups are, and what a test
# starts would inherit that. A handler is not inherited, and this process survives its terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    elsewhere = pytest.mark.skip(reason="runs on one interpreter: CPython 3.14")
    emulated = pytest.mark.skip(reason="qemu emulates the program, not the kernel: no such answer")
    without = pytest.mark.skip(reason="CPython before 3.12 has no immortal objects")
    for item in items:
        if item.get_closest_marker("kernel") and "PASTURE_EMULATED" in os.environ:
            item.add_marker(emulated)
        if item.get_closest_marker("immortality") and sys.version_info < (3, 12):
            item.add_marker(without)
        if item.get_closest_marker("once") and sys.version_info[:2] != ONCE_ON:
            item.add_marker(elsewhere)
        for folder in MARKS_OF_FOLDERS.keys() & set(Path(item.path).parts):
            for mark in MARKS_OF_FOLDERS[folder]:
                item.add_marker(mark)


def pytest_collection_finish() -> None:
    """Thousands of collected tests are no garbage: a collection in a test need not look at them."""
    gc.collect()
    gc.freeze()
