"""What `make test-sites` masks, fills in and compares."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from matrix.sites import __main__ as command
from matrix.sites.browser import Step, _Forms, mask
from matrix.sites.catalog import Site, load_sites, load_versions
from matrix.sites.comparison import Plain, compare
from matrix.sites.modes import MODES, Mode
from matrix.sites.runs import Run, _rows

RUN = Run(steps=(Step("GET /", 200, "a"), Step("GET /b", 200, "b")), rows={"t": 3}, exit_code=0)


def with_text(run: Run, text: str) -> Run:
    return replace(run, steps=(replace(run.steps[0], text=text), *run.steps[1:]))


def test_tokens_dates_and_numbers_are_masked_and_words_are_not() -> None:
    first = "id 12 at 2026-01-02, csrf=AbC9dEf0GhIjKlMnOp, 2 seconds ago: Internal Server Error"
    second = "id 13 at 2027-11-12, csrf=ZbC8dEf0GhIjKlMnOq, 1 second ago: Internal Server Error"
    assert mask(first) == mask(second)
    assert "Internal Server Error" in mask(first)
    assert mask("created") != mask("deleted")


def test_a_form_is_found_with_the_values_that_it_holds() -> None:
    page = """<form action="/go" method="post"><input name="token" type="hidden" value="t">
    <input type="checkbox" name="off"><input type="checkbox" name="on" value="1" checked>
    <select name="kind"><option value="a"><option value="b" selected></select>
    <input type="submit" name="send" value="s"></form>
    <form action="/search"><input name="q"></form>"""
    form, search = _Forms.of(page)
    assert (form.action, form.method) == ("/go", "post")
    assert form.values == {"token": "t", "on": "1", "kind": "b"}
    assert form.fields == {"token", "off", "on", "kind", "send"}
    assert search.fields == {"q"}


def test_another_status_body_row_or_end_is_a_difference() -> None:
    plain = Plain(RUN, RUN)
    assert compare(plain, RUN) == []
    failed = replace(RUN, steps=(Step("GET /", 500, "a"), RUN.steps[1]))
    others = [failed, with_text(RUN, "z"), replace(RUN, rows={"t": 2}), replace(RUN, exit_code=1)]
    others += [replace(RUN, left=1), replace(RUN, complaints={"Traceback": 1})]
    others += [replace(RUN, failure="it does not answer"), replace(RUN, steps=RUN.steps[:1])]
    assert [len(compare(plain, other)) for other in others] == [1] * len(others)


def test_what_differs_between_plain_runs_is_not_compared() -> None:
    plain = Plain(RUN, with_text(RUN, "changes"))
    assert compare(plain, with_text(RUN, "changes again")) == []
    assert len(compare(plain, replace(RUN, rows={}))) == 1


@pytest.mark.parametrize("failed", [0, 1])
def test_a_site_that_fails_plain_once_is_compared_with_nothing(
    monkeypatch: pytest.MonkeyPatch, failed: int
) -> None:
    runs = [RUN, RUN, replace(RUN, failure="it does not answer")]
    runs[failed] = runs[2]
    asked = iter(runs)
    monkeypatch.setattr(command, "make_environment", lambda site: None)
    monkeypatch.setattr(command, "obtain", lambda *_: next(asked))
    assert not command.examine(load_sites()["notes"], [MODES["run"]], resume=False)
    assert len(list(asked)) == 1


def test_each_site_has_a_session_and_no_mode_changes_the_plain_command() -> None:
    for site in [*load_sites().values(), *load_versions().values()]:
        assert (site.folder.name, bool(site.serve)) == (site.name, True)
        assert site.session_file.exists()
        assert MODES["seal"].command(site.serve) == list(site.serve)


def test_a_program_that_is_no_server_of_pastures_runs_as_a_program_in_python() -> None:
    run, seal = MODES["run"], MODES["seal"]
    assert run.command(["gunicorn", "app"]) == ["pasture", "run", "gunicorn", "app"]
    assert run.command(["netbox", "w"]) == ["pasture", "run", "python", "{bin}/netbox", "w"]
    assert seal.command(["netbox", "w"]) == ["netbox", "w"]


def test_a_site_without_generations_has_no_run_that_reforks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def obtain(site: Site, mode: Mode, name: str, resume: bool) -> Run:
        asked.append(name)
        return RUN

    monkeypatch.setattr(command, "make_environment", lambda site: None)
    monkeypatch.setattr(command, "obtain", obtain)
    notes = load_sites()["notes"]
    for site in (notes, replace(notes, refork="30")):
        assert command.examine(site, [MODES["refork"]], resume=False)
    assert asked == ["plain", "plain-again"] * 2 + ["refork"]


def test_databases_that_differ_by_an_identifier_in_their_names_are_counted_together(
    tmp_path: Path,
) -> None:
    for name in ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"):
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as database:
            database.execute("CREATE TABLE t (a)")
            database.execute("INSERT INTO t VALUES (1)")
            database.commit()
    assert _rows(tmp_path) == {"U.db:t": 2}
