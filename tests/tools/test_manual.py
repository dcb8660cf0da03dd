"""`make manual`: a man page a command with all its options, and completion of three shells."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

MANUAL = Path(__file__).resolve().parents[2] / "tools" / "manual"
pytestmark = pytest.mark.once


def test_every_command_has_a_page_with_all_its_options(tmp_path: Path) -> None:
    # In a process of its own: click keeps what `--help` is called where a command ran before.
    subprocess.run([sys.executable, str(MANUAL), str(tmp_path)], check=True)
    pages = {one.name: one.read_text() for one in (tmp_path / "man1").iterdir()}
    assert {"pasture.1", "pasture-try.1", "pasture-image-build.1"} <= pages.keys()
    for name, text in pages.items():
        words = [sys.executable, "-m", "pasture", *name.removesuffix(".1").split("-")[1:]]
        if name in ("pasture.1", "pasture-run.1", "pasture-image-build.1"):
            shown = subprocess.run([*words, "--help"], capture_output=True, text=True).stdout
            for option in re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.MULTILINE):
                assert option.replace("-", r"\-") in text, (name, option)
        requests = {line.split()[0] for line in text.splitlines() if line[:1] in (".", "'")}
        assert requests <= {".TH", ".SH", ".PP", ".TP", ".B", ".nf", ".fi"}, name
    assert "_PASTURE_COMPLETE" in (tmp_path / "pasture.bash").read_text()
    assert {"_pasture", "pasture.fish"} < {one.name for one in tmp_path.iterdir()}
