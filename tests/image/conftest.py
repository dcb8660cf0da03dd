"""Images in files: one for all tests that change nothing, and a test's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from images import Description, Images, compiled

IMAGE_MODULES = (
    "json,random,uuid,ssl,sqlite3,asyncio,logging,multiprocessing.pool,decimal,ctypes,changing"
)


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


@pytest.fixture
def copied(images: Images, tmp_path: Path) -> Iterator[Path]:
    """A copy of the image, which programs are started out of."""
    before, path = images.image, tmp_path / "copy.img"
    tmp_path.chmod(0o755)
    shutil.copyfile(before, path)
    path.chmod(0o600)
    images.image = path
    yield path
    images.image = before


@pytest.fixture
def described(copied: Path) -> Description:
    """Of a copy of the image, which programs are started out of."""
    return Description(copied)
