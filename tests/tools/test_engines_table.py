"""`make engines`: rows, what is kept of them, and the page, without an engine."""

import dataclasses
import importlib.util
import json
from pathlib import Path

import click
import pytest

from matrix.engines import __main__ as command
from matrix.engines.engine import Engine, Figures, Place, Variant
from matrix.engines.environments import pins_of
from matrix.engines.page import write_page
from matrix.engines.results import Result, key_of, store
from matrix.environments import REPOSITORY


def measure(variant: Variant, place: Place) -> Figures:
    raise AssertionError("nothing is measured here")


ROW = Engine("slow", "slow --workers", 10, "`slow`", "`pasture run slow`", 4, measure)


def figures(
    private_mb: float, pss_mb: float = 400.0, start_s: float = 8.0, **others: float
) -> Figures:
    return Figures(private_mb * 1e6, pss_mb * 1e6, start_s, others)


def result(theirs: list[Figures], sealed: list[Figures]) -> Result:
    return Result({"slow": "1.2"}, {"theirs": theirs, "sealed": sealed}, [1.0])


def test_every_row_is_named_as_its_module_and_its_pins_and_its_guide_are_there() -> None:
    rows = command.engines()
    assert len({row.name for row in rows}) == len(rows) > 1
    for row in rows:
        assert importlib.util.find_spec(f"matrix.engines.rows.{row.name}"), row.name
        pins_of(row.packages)
        assert (REPOSITORY / "docs" / row.guide.partition("#")[0]).exists(), row.guide


def test_every_pin_names_one_version() -> None:
    tables = [row.packages for row in command.engines() if row.packages]
    pins = [
        pin
        for name in tables
        for part in ("packages", "constraints")
        for pin in pins_of(name).get(part, ())
    ]
    assert pins
    assert [pin for pin in pins if pin.count("==") != 1] == []


def test_rows_are_chosen_by_name_in_the_order_of_the_table() -> None:
    other = dataclasses.replace(ROW, name="other")
    assert command.chosen([ROW, other], ["other", "slow"]) == [ROW, other]
    assert command.chosen([ROW, other], []) == [ROW, other]
    with pytest.raises(click.BadParameter, match="no row nginx"):
        command.chosen([ROW, other], ["nginx"])


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    kept = result([figures(60, items=3.0)], [figures(6, items=4.0)])
    store(tmp_path).keep(ROW.name, kept, "key")
    assert store(tmp_path).kept(ROW.name, "key") == kept
    assert store(tmp_path).kept(ROW.name, "another") is None
    assert kept.rounds() == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"key": 1}',
        '{"key": "k", "versions": {}, "load": [], "starts": {"theirs": [{"pss": 1}]}}',
    ],
)
def test_a_file_that_is_not_a_result_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "slow.json").write_text(text)
    assert store(tmp_path).kept(ROW.name) is None


def test_a_start_without_its_counterpart_makes_no_round(tmp_path: Path) -> None:
    assert result([figures(60)], []).rounds() == 0
    assert "not measured" in write_page([(ROW, result([figures(60)], []))])


def test_the_key_of_a_result_changes_with_the_interpreter_and_the_row() -> None:
    assert key_of(ROW, "3.14.10") == key_of(ROW, "3.14.10")
    more = dataclasses.replace(ROW, workers=8)
    assert len({key_of(ROW, "3.14.10"), key_of(ROW, "3.13.5"), key_of(more, "3.14.10")}) == 3


def test_the_page_has_medians_and_ratios_within_rounds() -> None:
    page = write_page([(ROW, result([figures(60), figures(80)], [figures(6), figures(16)]))])
    row = next(line for line in page.splitlines() if line.startswith("| [slow --workers]"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:5] == ["4", "70.0 MB", "11.0 MB", "0.15"]
    assert cells[5:8] == ["400 MB", "400 MB", "1.00"]


@pytest.mark.parametrize(("sealed_mb", "verdict"), [(20, "met"), (22, "missed")])
def test_the_page_says_whether_a_goal_is_met(sealed_mb: float, verdict: str) -> None:
    row = dataclasses.replace(ROW, private_goal=0.35)
    page = write_page([(row, result([figures(60)], [figures(sealed_mb)]))])
    assert f", {verdict}\n" in page


def test_the_page_keeps_what_was_measured_elsewhere_and_forgets_rows_that_are_gone() -> None:
    other = dataclasses.replace(ROW, name="other", title="other")
    here = result([figures(60)], [figures(6)])
    first = write_page([(ROW, here), (other, here)])
    assert write_page([(ROW, None), (other, None)], first) == first
    again = write_page([(ROW, result([figures(80)], [figures(8)])), (other, None)], first)
    assert again == first.replace("60.0 MB | 6.00 MB", "80.0 MB | 8.00 MB", 1)
    assert write_page([(other, None)], first) == write_page([(other, here)])


def test_a_row_that_fails_is_reported_and_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(engine: Engine, rounds: int, again: bool) -> None:
        raise click.ClickException("there is no Java")

    monkeypatch.setattr(command, "measure", fail)
    assert command._is_measured(ROW, 1, False) is False
    assert "slow: there is no Java" in capsys.readouterr().err


def test_a_round_that_is_half_there_is_finished_and_what_is_complete_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Variant] = []

    def start(variant: Variant, place: Place) -> Figures:
        assert list(place.folder.iterdir()) == []
        started.append(variant)
        return figures(60)

    row = dataclasses.replace(ROW, measure=start)
    monkeypatch.setattr(command, "store", lambda: store(tmp_path))
    command.measure(row, 1, again=False)
    kept = json.loads((tmp_path / "slow.json").read_text())
    del kept["result"]["starts"]["sealed"]
    (tmp_path / "slow.json").write_text(json.dumps(kept))
    command.measure(row, 2, again=False)
    assert started == ["theirs", "sealed", "sealed", "sealed", "theirs"]
    command.measure(row, 2, again=False)
    assert len(started) == 5
    command.measure(row, 1, again=True)
    assert len(started) == 7
