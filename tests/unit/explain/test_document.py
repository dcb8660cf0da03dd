"""The document, tables and page of an explanation."""

from datetime import datetime
from io import StringIO

import pytest

pytest.importorskip("numpy")

from rich.console import Console

from pasture_tools.explain.causes import Cause
from pasture_tools.explain.document import as_document
from pasture_tools.explain.table import headline, print_explanation
from tests.unit.explain.explanations import FULL, explanation


def printed(found: object) -> str:
    text = StringIO()
    print_explanation(found, Console(file=text, width=200))  # type: ignore[arg-type]
    return text.getvalue()


def test_every_cause_is_in_the_document_also_those_that_do_not_occur() -> None:
    document = as_document(FULL)
    assert set(document["causes"]) == {cause.label for cause in Cause}
    assert document["causes"][Cause.STACK.label]["bytes"] == 0
    assert document["explained_bytes"] == 24_000_000


def test_the_headline_names_the_largest_cause() -> None:
    assert headline(FULL) == "worker 8 has 24.0 MB of private memory, 83 % of it reference count"
    assert headline(explanation({})) == "worker 8 has no private memory"


def test_all_that_was_found_is_printed() -> None:
    text = printed(FULL)
    for part in ("app.settings", "app.py:7", "50 faults in 2 workers, 2 lost", "main"):
        assert part in text
    assert "note: something was not known" in text


def test_what_was_not_looked_for_has_no_table() -> None:
    text = printed(explanation({Cause.STACK: 1}))
    assert "recorded" not in text and "objects" not in text


def test_the_page_holds_the_figures() -> None:
    for package in ("numpy", "jinja2", "plotly"):
        pytest.importorskip(package)
    from pasture_tools.explain import html

    page = html.render_html(FULL, datetime(2026, 1, 2))
    assert "app.settings" in page and "24.0 MB" in page
