"""Servers of zygotes, and images in files: for all tests that change nothing, and a test's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from images import Images, compiled
from zygotes import Zygotes


def started(folder: Path) -> Iterator[Zygotes]:
    found = Zygotes(folder)
    yield found
    found.pasture("stop", check=False)
    print(f"--- log of the zygotes\n{found.log()}")


_MODULES = "json,random,logging,multiprocessing.pool,ssl,ctypes,asyncio,sqlite3"


@pytest.fixture(scope="session")
def zygotes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygotes]:
    """With two zygotes, on top of each other, beside the bare one: `json`, and `decimal` on it."""
    folder = tmp_path_factory.mktemp("z")
    folder.chmod(0o700)
    for found in started(folder):
        found.pasture("start", "--preload", _MODULES, "--name", "json")
        found.pasture("start", "--preload", "decimal", "--name", "decimal", "--base", "json")
        yield found


@pytest.fixture
def own_zygotes(tmp_path: Path) -> Iterator[Zygotes]:
    """Without any zygote, for tests that change them."""
    tmp_path.chmod(0o700)
    yield from started(tmp_path)


IMAGE_MODULES = "json,random,uuid,ssl,sqlite3,asyncio,changing"


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    """With an image of modules of the standard library and a module with a library in C.

    For tests that leave the image and what it was made of as they were.
    """
    folder = tmp_path_factory.mktemp("images")
    folder.chmod(0o755)
    found = Images(folder)
    library = found.lib / "answer.so"
    loads = "ANSWER = int\n"  # where there is no compiler, as under tools/arm64
    if shutil.which("cc"):
        compiled(library, 1)
        loads = f"import ctypes\nANSWER = ctypes.CDLL({str(library)!r}).answer\nVALUE = 1\n"
    found.module("changing", loads)
    found.built("--preload", IMAGE_MODULES)
    return found


@pytest.fixture
def own_images(tmp_path: Path) -> Images:
    """Without any image."""
    tmp_path.chmod(0o755)
    return Images(tmp_path)
