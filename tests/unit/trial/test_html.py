"""The page is complete in itself and escapes what it is given."""

import re
from collections.abc import Callable
from datetime import datetime

import pytest

from pasture_tools.trial.measurement import Run, TrialResult

pytest.importorskip("jinja2", reason="comes with the extra `trial`")

from pasture_tools.trial import plots
from pasture_tools.trial.html import render_html

MB = 1_000_000
MADE_AT = datetime(2025, 1, 2, 3, 4)
MakeRun = Callable[..., Run]
MakeResult = Callable[..., TrialResult]


def test_a_page_loads_and_runs_nothing(make_result: MakeResult) -> None:
    page = render_html(make_result(), MADE_AT)

    assert not re.search(r"<(script|link|img|iframe)\b|@import|url\(", page)
    assert len(page) < 40_000


def test_a_page_shows_the_saving_and_every_policy(make_result: MakeResult) -> None:
    page = render_html(make_result(), MADE_AT)

    assert "<h1>seal saves 60.0 MB of 131 MB (46 %)</h1>" in page
    assert page.count('<article class="card') == 2
    assert page.count("<figure") == 6
    assert page.count("<path ") == 2 * 2 * 2  # of each policy a line and a band
    assert "2025-01-02 03:04" in page


def test_what_the_user_typed_is_escaped(make_result: MakeResult, make_run: MakeRun) -> None:
    run = make_run("stock", paths=("GET /?q=<script>alert(1)</script>",))
    result = make_result(run, app="site:<b>app</b>")

    page = render_html(result, MADE_AT)

    assert "<script>alert(1)" not in page
    assert "site:<b>app" not in page


def test_a_line_ends_with_the_last_sample(make_result: MakeResult) -> None:
    drawn = plots.over_requests(make_result(), lambda memory: memory.private_bytes)

    seal = next(line for line in drawn.lines if line.name == "seal")
    assert list(seal.x) == [0, 100]
    assert list(seal.y) == [1.25, 5.0]


def test_bars_of_memory_add_up_to_the_total(make_result: MakeResult) -> None:
    [(_, bars)] = plots.total_pss(make_result()).groups

    assert [(bar.value, bar.pale) for bar in bars] == [(80 * MB, 51 * MB), (20 * MB, 51 * MB)]
    assert [bar.text for bar in bars] == ["131 MB", "71.0 MB"]


def test_each_policy_has_a_colour_of_its_own(make_result: MakeResult, make_run: MakeRun) -> None:
    names = ("stock", "freeze", "warm-freeze", "seal", "refork")
    result = make_result(*(make_run(name) for name in names))

    assert len({plots.color_of(name, result) for name in names}) == len(names)
