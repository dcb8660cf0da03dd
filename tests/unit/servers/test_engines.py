"""The table of engines: what it names is there, and what must agree with it does."""

import importlib.util
import re
from pathlib import Path

import pytest

from pasture.servers import one_process
from pasture.servers.engines import ENGINES, Row
from pasture.serving.settings import read_environment
from pasture_tools.cli.run import command

pytestmark = pytest.mark.once

DOCS = Path(__file__).parents[3] / "docs"
ROWS = pytest.mark.parametrize("row", ENGINES.values(), ids=lambda row: str(row.name))


@ROWS
def test_an_engine_has_its_module(row: Row) -> None:
    assert importlib.util.find_spec(row.module) is not None


def test_each_server_that_forks_nothing_has_words_for_what_would_help() -> None:
    rows = [row.name for row in ENGINES.values() if ".one_process." in row.module]
    assert rows == list(one_process.INSTEAD)
    assert set(one_process.PROGRAMS.values()) <= set(rows)


@ROWS
def test_an_engine_knows_lifespans_that_there_are(row: Row) -> None:
    for word in row.lifespans:
        assert read_environment({}, lifespan=word).lifespan == word != "each"


@ROWS
def test_a_documented_engine_is_named_where_users_look(row: Row) -> None:
    if not row.guide:
        pytest.skip("not for users by this name")
    guide = (DOCS / row.guide).read_text()
    if not row.is_program:
        assert row.module in guide
        return
    assert re.search(rf"pasture run .*\b{row.name}\b", guide)
    assert row.name in (command.help or "")
    if row.seen_by:
        assert re.search(
            rf"^\|.*`{row.name}\b", (DOCS / "environment.md").read_text(), re.MULTILINE
        )
