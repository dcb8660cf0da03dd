"""A refused look into a process names what is missing."""

import os
from pathlib import Path

import pytest

from pasture.proc import privilege

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("user", "held", "words"),
    [
        (1000, 0, "be root"),
        (0, 0, "this root lacks CAP_SYS_PTRACE: docker run --cap-add SYS_PTRACE"),
        (0, 1 << 19, "this root has CAP_SYS_PTRACE, but another user namespace"),
    ],
)
def test_the_hint_names_what_root_lacks_and_asks_others_to_be_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: int, held: int, words: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "status").write_text(f"CapPrm:\t0\nCapEff:\t{held:016x}\nCapBnd:\t0\n")
    assert privilege.hint("CAP_SYS_PTRACE", "be root", tmp_path).startswith(words)
