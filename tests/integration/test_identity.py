"""Who workers of gunicorn are and what they draw; `make test-identity` has the other engines."""

import tempfile
from pathlib import Path

import pytest

from matrix.identity.engines import ENGINES
from matrix.identity.relations import (
    Accepted,
    Difference,
    Relations,
    accepted,
    differences,
    reason_for,
    relations_of,
)

pytestmark = [pytest.mark.once, pytest.mark.timeout(600)]
pytest.importorskip("numpy")

GUNICORN = ENGINES["gunicorn"]
ROWS = accepted()


def start(mode: str) -> Relations:
    with tempfile.TemporaryDirectory() as folder:
        return relations_of(GUNICORN.run(mode, Path(folder) / "start"))


@pytest.fixture(scope="module")
def plain() -> Relations:
    return start("plain")


@pytest.mark.parametrize("mode", [mode for mode in GUNICORN.modes if mode != "plain"])
def test_workers_have_among_each_other_what_plain_ones_have_or_there_is_a_reason(
    mode: str, plain: Relations
) -> None:
    found = list(differences("gunicorn", mode, plain, start(mode)))
    assert [str(one) for one in found if reason_for(one, ROWS) is None] == []


def test_plain_workers_have_what_is_their_own(plain: Relations) -> None:
    """Else the comparison says nothing."""
    own = ("pid", "pid@host", "numpy.random", "default_rng()", "Random()", "uuid4", "time")
    for moment in ("import", "late import", "cache", "first request", "now"):
        assert {plain[f"{moment}: {name}"].partition(",")[0] for name in own} == {"all differ"}
        assert plain[f"{moment}: default_rng(7)"].partition(",")[0] == "all equal"


def test_relations_are_found_between_workers_and_to_what_they_would_take_now() -> None:
    first = {"import": {"a": 1, "b": 1, "c": 5}, "now": {"a": 1, "b": 2, "c": 5}}
    second = {"import": {"a": 2, "b": 1, "c": 5}, "now": {"a": 2, "b": 3, "c": 5}}
    assert relations_of([first, second]) == {
        "import: a": "all differ, its own",
        "import: b": "all equal",
        "import: c": "all equal, its own",
        "now: a": "all differ, its own",
        "now: b": "all differ, its own",
        "now: c": "all equal, its own",
    }


def test_a_row_covers_what_it_names_and_nothing_else() -> None:
    row = Accepted("because", ("gunicorn*",), ("run",), ("import",), ("pid",))
    one = Difference("gunicorn --preload", "run", "import: pid", "all differ", "all equal")
    assert reason_for(one, [row]) == "because"
    for engine, mode, thing in (
        ("uvicorn", "run", "import: pid"),
        ("gunicorn", "seal", "import: pid"),
        ("gunicorn", "run", "cache: pid"),
        ("gunicorn", "run", "import: pid@host"),
    ):
        assert reason_for(Difference(engine, mode, thing, "", ""), [row]) is None
