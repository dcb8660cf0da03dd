"""Tables of experiments: what one says, and how a mistake in one is said."""

from pathlib import Path
from typing import Any

import pytest

from pasture.errors import UsageError
from pasture_lab.engine.description import fill, read_experiment, read_rows
from pasture_lab.engine.experiment import Experiment, Plot, Row
from pasture_lab.engine.rule import Rule

HEAD = """\
name = "n"
title = "t"
source = "s"
setting = "at <place>"
differences = ["in <count> ways"]
"""
ROWS = """
[[rows]]
what = "<what>"
published = "2"
shows = "{a.x}"
[rows.rule]
says = "x"
of = "<what>.x"
most = 3
published = "3 / 1.5"

[[plots]]
key = "k"
title = "<what>"
caption = ""
kind = "bars"
parts = ["<what>"]

[[more.others]]
what = "other <name>"
"""
WORDS = {"place": "home", "count": 2}


def read(tmp_path: Path, text: str, **more: Any) -> Experiment:
    (tmp_path / "n.toml").write_text(text)
    return read_experiment(tmp_path / "n.toml", parts=lambda options: (), words=WORDS, **more)


def test_a_table_becomes_an_experiment_with_its_words_filled_in(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + ROWS, each=[{"what": "a"}, {"what": "b"}])
    assert (found.setting, found.differences) == ("at home", ("in 2 ways",))
    assert [row.what for row in found.rows] == ["a", "b"]
    assert found.rows[1].rule == Rule(says="x", of="b.x", most=3, published=2.0)
    assert found.plots[0] == Plot(key="k", title="a", caption="", kind="bars", parts=("a",))


def test_rows_beside_the_experiment_are_read_by_name_and_filled_later(tmp_path: Path) -> None:
    read(tmp_path, HEAD + ROWS, each=[{"what": "a"}])
    (row,) = read_rows(tmp_path / "n.toml", "others")
    assert fill(row, {"name": "<name>"}) == Row(what="other <name>")
    with pytest.raises(UsageError, match=r"n\.toml: has no rows \[\[more\.strangers\]\]"):
        read_rows(tmp_path / "n.toml", "strangers")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "cannot be read"),
        (HEAD.replace('title = "t"', ""), r"n\.toml: it has no title"),
        (HEAD + "seting = 1", "seting is unknown; known are name, title"),
        (HEAD + "parts = 1", "parts is unknown"),
        (HEAD.replace('"t"', "3"), "title is no text"),
        (HEAD.replace('["in <count> ways"]', '"x"'), "differences is no list of texts"),
        (HEAD.replace("<place>", "<plaice>"), "setting: <plaice> is filled in by nothing"),
        (HEAD + "rows = 3", "a row is no table in double brackets"),
        (HEAD + "rows = [3]", "a row is no table in double brackets"),
        (HEAD + "[[rows]]", "row 1: it has no what"),
        (HEAD + "[[rows]]\nwhat = 'w'\n[[rows]]\nwhat = 'w'\nsnows = ''", "row 2: snows is unk"),
        (HEAD + "[[rows]]\nwhat = 'w'\ndecides = 'no'", "row 1: decides is neither true"),
        (HEAD + "[[rows]]\nwhat = 'w'\npublished = '3'", "row 1: a published figure needs a rule"),
        (HEAD + "[[rows]]\nwhat = 'w'\nrule = 3", "row 1, rule: it is no table"),
        (HEAD + ROWS.replace("most = 3", ""), "row 1, rule: it needs a bound"),
        (HEAD + ROWS.replace("most = 3", "most = 'x'"), "row 1, rule: most is no number"),
        (HEAD + ROWS.replace("most = 3", "most = true"), "row 1, rule: most is no number"),
        (HEAD + ROWS.replace("3 / 1.5", "3 / 0"), "row 1, rule: published is no number"),
        (HEAD + ROWS.replace("3 / 1.5", "about 2"), "row 1, rule: published is no number"),
        (HEAD + ROWS.replace('"bars"', '"pie"'), "plot 1: kind is none of lines, bars, names"),
        (HEAD + ROWS.replace('"bars"', "[]"), "plot 1: kind is none of lines, bars, names"),
    ],
)
def test_a_mistake_in_a_table_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(tmp_path, text, each=[{"what": "a"}])


def test_a_word_that_one_site_lacks_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"n\.toml: <what> is filled in by nothing"):
        read(tmp_path, HEAD + ROWS, each=[{"what": "a"}, {"waht": "b"}])


def test_a_table_that_is_not_there_or_not_text_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_rows(tmp_path / "none.toml", "x")
    (tmp_path / "n.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        read_rows(tmp_path / "n.toml", "x")
