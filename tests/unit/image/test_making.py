"""The making of an image where the kernel refuses what it rests on."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pasture.errors import ImageFailed
from pasture_image.build import making


def test_a_sandbox_without_orphans_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(making, "native", lambda: SimpleNamespace(adopt_orphans=refuse))
    with pytest.raises(ImageFailed, match="parent of orphans: Operation not permitted") as failed:
        making._made(cast(Any, None))
    assert failed.value.hint
