"""docs/memory.svg and docs/pypi.txt are what README.md says."""

import re
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
PARTS = runpy.run_path(str(ROOT / "tools/pages/readme.py"))
README = (ROOT / "README.md").read_text()


def test_the_picture_and_the_long_description_are_up_to_date() -> None:
    found = [(ROOT / "docs" / name).read_text() for name in ("memory.svg", "pypi.txt")]
    written = [PARTS["picture"](README), PARTS["description"](README, PARTS["address"]())]
    assert found == written, "run `make pages`"


def test_the_picture_has_a_block_for_each_worker_and_no_figure_but_the_tables() -> None:
    rows = PARTS["bars"](README)
    blocks = PARTS["picture"](README).count(f'height="{PARTS["BAR"]}"')
    assert [row.policy for row in rows] == ["stock", "warm-freeze", "seal"]
    assert blocks == len(rows) * (1 + 4)
    assert re.findall(r">([\d.]+) MB<", PARTS["picture"](README)) == [f"{r.total:g}" for r in rows]


def test_a_link_leads_to_the_projects_address_or_is_plain_text_without_one() -> None:
    text = "![a](a.svg)\n[b](b.md#c), [d](https://example.org)\n"
    plain = PARTS["description"](text, None)
    assert "\nb, [d](https://example.org)" in plain and "b.md" not in plain
    whole = PARTS["description"](text, "https://example.org/tree/")
    assert "![a](https://example.org/tree/a.svg)\n[b](https://example.org/tree/b.md#c)" in whole
