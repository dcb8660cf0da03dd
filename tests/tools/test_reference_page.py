"""docs/reference.md is what the library and the commands are, and each reason code is explained."""

import subprocess
import sys
from pathlib import Path

import pytest

from pasture.reasons import Reason

ROOT = Path(__file__).resolve().parents[2]
PRINT = "import runpy, sys; sys.stdout.write(runpy.run_path(sys.argv[1])['page']())"
pytestmark = pytest.mark.once


@pytest.mark.skipif(sys.version_info[:2] != (3, 14), reason="the page is written on 3.14")
def test_the_reference_page_is_up_to_date() -> None:
    # In a process of its own: click keeps what `--help` is called where a command ran before.
    command = [sys.executable, "-c", PRINT, str(ROOT / "tools/pages/reference.py")]
    page = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    assert (ROOT / "docs/reference.md").read_text() == page, "run `make pages`"


def test_each_reason_code_has_a_section_of_its_own() -> None:
    lines = (ROOT / "docs/troubleshooting.md").read_text().splitlines()
    sections = {line.removeprefix("### ") for line in lines if line.startswith("### ")}
    assert sections == {str(one) for one in Reason}
