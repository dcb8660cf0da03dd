"""The making of an image where the kernel refuses what it rests on, or a user interrupts it."""

import gc
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pasture.errors import ImageFailed
from pasture_image.build import making, process
from pasture_image.inside.order import Order


def test_a_sandbox_without_orphans_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(making, "native", lambda: SimpleNamespace(adopt_orphans=refuse))
    with pytest.raises(ImageFailed, match="parent of orphans: Operation not permitted") as failed:
        making._made(cast(Any, None))
    assert failed.value.hint


def test_a_start_that_is_interrupted_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        assert [*tmp_path.iterdir()]
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(process, "stub_of", Path)
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with suppress(KeyboardInterrupt):
        process.Build(Order(sys.executable))
    gc.collect()
    assert not [*tmp_path.iterdir()]
