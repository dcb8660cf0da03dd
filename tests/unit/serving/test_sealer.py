"""A step in a hook that must not raise."""

import os
from dataclasses import replace

import pytest

from pasture.serving.sealer import Sealer
from pasture.serving.settings import read_environment

pytestmark = pytest.mark.once


def no_memory(self: Sealer) -> None:
    raise MemoryError


def ended(status: int) -> None:
    raise SystemExit(status)


def test_where_there_is_no_memory_to_seal_a_program_forks_as_without_pasture(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "_exit", ended)
    monkeypatch.setattr(Sealer, "before_fork", no_memory)
    settings = read_environment()
    Sealer(settings).before_fork_or_end()
    assert capsys.readouterr().err.startswith("error: cannot allocate memory\nhint: ")
    with pytest.raises(SystemExit):
        Sealer(replace(settings, strict=True)).before_fork_or_end()
