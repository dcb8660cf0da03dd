"""matrix/builds: the matrix that is made from results, and which of them are taken up again."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "matrix" / "builds"
MODULES = ("trials", "page", "kept")


class Harness:
    """The modules of matrix/builds."""

    trials: Any
    page: Any
    kept: Any


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    """They keep what they write in a fresh folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    made = Harness()
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in MODULES:
        setattr(made, name, importlib.import_module(name))
    monkeypatch.setattr(made.page, "PAGE", tmp_path / "page.md")
    made.page.PAGE.write_text(f"Before.\n\n{made.page.BEGIN}old\n{made.page.END}\nAfter.\n")
    for module in (made.kept, made.trials):
        monkeypatch.setattr(module, "FOLDER", tmp_path / "builds")
        monkeypatch.setattr(module, "REPOSITORY", tmp_path / "tree")
    monkeypatch.setattr(made.trials, "WHEELS", tmp_path / "wheels")
    for folder in ("builds/b", "tree/src/native", "wheels"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tree" / "src" / "native" / "seal.c").write_text("int seal;")
    (tmp_path / "wheels" / "pasture-1-cp313-cp313-manylinux_2_17_x86_64.whl").write_text("1")
    yield made
    for name in MODULES:
        sys.modules.pop(name, None)


FACTS = {"version": "3.13.9", "compiler": "GCC 12.2.0 20220814", "shared": False, "options": ""}


@pytest.fixture
def make_row(harness: Harness) -> Callable[..., Any]:
    """Makes a row of a build that seals by both ways; anything can be said to be otherwise."""

    def make(name: str = "b", build: dict[str, Any] | None = None, **outcome: Any) -> Any:
        fields = {
            "minor": "3.13", "source": "upstream", "about": "of shape X", "words": [],
            "ways": ["source", "wheel"], "refused": [], "asked_for": False,
        }  # fmt: skip
        results = {"facts": FACTS, "source": sealed(harness), "wheel": sealed(harness)}
        row = harness.page.Build(name=name, **fields | (build or {}))
        return harness.page.Row(row, harness.trials.Outcome(name, **results | outcome))

    return make


def sealed(harness: Harness, reason: str | None = None) -> Any:
    return harness.trials.Installation(memory=harness.trials.Memory(41.12, 0.49, reason, {}))


def matrix(harness: Harness) -> list[list[str]]:
    lines = [line for line in harness.page.PAGE.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# --- The page ---------------------------------------------------------------------------


def test_the_page_has_a_row_a_build_and_the_rest_of_it_stays(
    harness: Harness, make_row: Callable[..., Any]
) -> None:
    harness.page.write_page([make_row(native=(166, 0, 4)), make_row("c", wheel=None)])
    assert matrix(harness) == [
        ["3.13.9", "of shape X", "GCC 12.2.0", "seals", "seals", "166 passed, 4 skipped",
         "41.1 MB", "0.5 MB"],
        ["3.13.9", "of shape X", "GCC 12.2.0", "seals", "no wheel", "", "41.1 MB", "0.5 MB"],
    ]  # fmt: skip
    text = harness.page.PAGE.read_text()
    assert text.startswith("Before.\n") and text.endswith("\nAfter.\n") and "old" not in text


def test_a_refusal_stands_on_the_page_in_its_own_words(
    harness: Harness, make_row: Callable[..., Any]
) -> None:
    row = make_row(build={"refused": ["wheel"]}, wheel=sealed(harness, "built for a release | one"))
    harness.page.write_page([row])
    assert matrix(harness)[0][3:5] == ["seals", "refused"]
    words = "- 3.13.9, of shape X, from wheel: built for a release   one\n"
    assert words in harness.page.PAGE.read_text()


def test_builds_that_cannot_be_had_for_one_reason_stand_in_one_line(
    harness: Harness, make_row: Callable[..., Any]
) -> None:
    absent = [make_row(name, absent="no source\nof 3.14") for name in ("x", "y")]
    harness.page.write_page([make_row(), *absent])
    assert "- x, y: no source of 3.14\n" in harness.page.PAGE.read_text()
    assert len(matrix(harness)) == 1


# --- What is complained of --------------------------------------------------------------


def test_nothing_is_complained_of_where_all_is_as_it_should_be(
    harness: Harness, make_row: Callable[..., Any]
) -> None:
    refused = make_row(build={"refused": ["wheel"]}, wheel=sealed(harness, "other kind"))
    assert harness.page.complaints([make_row(), refused, make_row(absent="not here")]) == []


@pytest.mark.parametrize("way", ["source", "wheel"])
def test_a_refusal_without_reason_is_complained_of(
    harness: Harness, make_row: Callable[..., Any], way: str
) -> None:
    complaints = harness.page.complaints([make_row(**{way: sealed(harness, "moved")})])
    assert complaints == [f"b: refused (from {way}): moved"]


def test_a_build_that_is_taken_and_should_be_refused_is_complained_of(
    harness: Harness, make_row: Callable[..., Any]
) -> None:
    rows = [make_row(build={"refused": ["source"]})]
    assert harness.page.complaints(rows) == ["b: seals (from source): None"]


def test_failures_are_complained_of(harness: Harness, make_row: Callable[..., Any]) -> None:
    failure = harness.trials.Installation(failure="error: no PyGC_Head")
    complaints = harness.page.complaints([make_row(source=failure, native=(1, 2, 0))])
    assert complaints == [
        "b: fails (from source): error: no PyGC_Head",
        "b: 2 native tests failed (its native.log says which)",
    ]


# --- What is taken up again -------------------------------------------------------------


def test_what_is_kept_comes_back_as_it_was(harness: Harness, make_row: Callable[..., Any]) -> None:
    outcome = make_row(native=(166, 0, 4)).outcome
    harness.kept.keep(outcome, "3.13")
    assert harness.kept.kept("b", "3.13") == outcome


def test_a_change_of_the_sources_leaves_what_the_wheel_gave(
    harness: Harness, make_row: Callable[..., Any], tmp_path: Path
) -> None:
    harness.kept.keep(make_row(native=(166, 0, 4)).outcome, "3.13")
    (tmp_path / "tree" / "src" / "native" / "seal.c").write_text("int other;")
    again = harness.kept.kept("b", "3.13")
    assert (again.source, again.native) == (None, None)
    assert again.wheel == sealed(harness)


def test_a_run_without_native_tests_leaves_what_they_said_to_the_page(
    harness: Harness, make_row: Callable[..., Any], tmp_path: Path
) -> None:
    harness.kept.keep(make_row(native=(166, 0, 4)).outcome, "3.13")
    (tmp_path / "tree" / "src" / "native" / "seal.c").write_text("int other;")
    harness.kept.keep(make_row().outcome, "3.13")
    assert harness.kept.kept_for_page("b").native == (166, 0, 4)
    assert harness.kept.kept("b", "3.13") == make_row().outcome


def test_another_wheel_leaves_what_the_sources_gave(
    harness: Harness, make_row: Callable[..., Any]
) -> None:
    harness.kept.keep(make_row().outcome, "3.13")
    next(harness.trials.WHEELS.iterdir()).write_text("2")
    again = harness.kept.kept("b", "3.13")
    assert (again.source, again.wheel) == (sealed(harness), None)


def test_that_an_interpreter_is_not_there_is_kept_for_the_page_alone(
    harness: Harness, make_row: Callable[..., Any]
) -> None:
    harness.kept.keep(make_row(absent="no network").outcome, "3.13")
    assert harness.kept.kept("b", "3.13") == harness.trials.Outcome("b")
    assert harness.kept.kept_for_page("b").absent == "no network"
    harness.kept.keep(make_row().outcome, "3.13")
    assert harness.kept.kept_for_page("b") == make_row().outcome


def test_a_result_that_was_cut_short_is_tried_anew(harness: Harness) -> None:
    harness.kept.store().file("b/result").write_text('{"of": ')
    assert harness.kept.kept("b", "3.13") == harness.trials.Outcome("b")


def test_only_what_is_missing_is_tried(
    harness: Harness, make_row: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(harness.trials, "obtain", lambda name: (Path("python"), FACTS))
    for way in ("source", "wheel"):
        monkeypatch.setattr(harness.trials, f"try_{way}", lambda *_, way=way: tried.append(way))
    outcome = make_row(wheel=None).outcome
    harness.trials.complete(outcome, "3.13", ["source", "wheel"], False)
    harness.trials.complete(harness.trials.Outcome("b"), "3.13", ["source"], False)
    assert tried == ["wheel", "source"]
