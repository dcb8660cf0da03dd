"""Which engine a program is, as the start file of `pasture[auto]` sees it."""

import sys

import pytest

import pasture_auto
from pasture.log_lines import log
from pasture.servers.engines import ENGINES
from pasture.serving import sealer
from pasture_auto import may_be_engine, program_of, read_engines, switches_of

pytestmark = pytest.mark.once

FORKSERVER = "multiprocessing.forkserver"
ANY = {row.seen_by for row in ENGINES.values() if row.seen_by} - {FORKSERVER}


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["python", "/opt/bin/gunicorn", "-w", "8"], ("", "/opt/bin/gunicorn")),
        (["python", "-m", "gunicorn", "-c", "conf.py"], ("m", "gunicorn")),
        (["python", "-um", "uvicorn.main"], ("m", "uvicorn.main")),
        (["python", "-muvicorn"], ("m", "uvicorn")),
        (["python", "-X", "dev", "-Wdefault", "app.py"], ("", "app.py")),
        (["python", "-W", "error", "-bb", "app.py"], ("", "app.py")),
        (["python", "--check-hash-based-pycs", "always", "app.py"], ("", "app.py")),
        (["python", "-Ic", "print(1)", "gunicorn"], ("c", "print(1)")),
        (["python", "-"], ("", "-")),
        (["python"], ("", "")),
        ([], ("", "")),
    ],
)
def test_a_command_line_says_what_it_runs(words: list[str], program: tuple[str, str]) -> None:
    assert program_of(words) == program


@pytest.mark.parametrize(
    ("program", "modules"),
    [
        (("", "/opt/bin/gunicorn"), {"gunicorn.app.base"}),
        (("m", "uvicorn.main"), {"uvicorn.main"}),
        (("", "huey_consumer.py"), {"huey.consumer"}),
        (("", "train.py"), ANY),
        (("m", "my_site.serve"), ANY),
        (("", "/opt/bin/uwsgi"), ANY),
        (("", "dask"), ANY),
        (("c", f"import sys; from {FORKSERVER} import main; main(3)"), {FORKSERVER}),
    ],
)
def test_a_known_program_waits_for_its_own_engine_and_another_for_any(
    program: tuple[str, str], modules: set[str]
) -> None:
    assert may_be_engine(program)
    assert switches_of(program, ENGINES).keys() == modules


@pytest.mark.parametrize(
    "program",
    [
        ("m", "pasture.servers.gunicorn"),
        ("", "/opt/bin/ddtrace-run"),
        ("c", "from multiprocessing.spawn import spawn_main; spawn_main()"),
        ("", ""),
    ],
)
def test_what_forks_nothing_or_seals_itself_is_not_watched(program: tuple[str, str]) -> None:
    assert not may_be_engine(program)


def test_a_module_that_two_rows_name_switches_the_first_of_them_on() -> None:
    assert switches_of(("", "fastapi"), ENGINES) == {"uvicorn.main": "pasture.servers.uvicorn"}


def test_the_table_is_read_without_an_import_of_pasture(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pasture"]:
        monkeypatch.delitem(sys.modules, name)
    engines = read_engines()
    assert {name: vars(row) for name, row in engines.items()} == {
        name: vars(row) for name, row in ENGINES.items()
    }
    assert "pasture" not in sys.modules


def test_before_pasture_can_be_found_there_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [])
    assert read_engines() == {}


@pytest.mark.parametrize("value", ["1", "on", "True", "yes", "seal"])
def test_on_is_the_usual_policy(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASTURE", value)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "gunicorn"])
    monkeypatch.setattr(sys, "meta_path", [])

    pasture_auto.start()

    (watch,) = sys.meta_path
    assert vars(watch)["_policy"] == "seal"


@pytest.mark.parametrize("value", ["", "0", "off", "OFF", "false", "no"])
def test_off_is_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finders: list[object] = []
    monkeypatch.setenv("PASTURE", value)
    monkeypatch.setattr(sys, "meta_path", finders)
    pasture_auto.start()
    assert finders == []


def test_a_program_that_is_several_engines_shows_each_line_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    monkeypatch.setattr(log, "level", log.level)
    monkeypatch.setattr(log, "disabled", False)

    sealer.show_log()
    sealer.show_log()
    log.warning("sealed")

    assert capsys.readouterr().err == "pasture: sealed\n"


def test_an_old_finder_that_has_no_find_spec_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an import does."""
    monkeypatch.setattr(sys, "meta_path", [object(), *sys.meta_path])
    assert read_engines().keys() == ENGINES.keys()
    watch = pasture_auto._Watch(("", "train.py"), "seal")
    watch._left = {"colorsys": "pasture.none"}
    spec = watch.find_spec("colorsys")
    assert spec is not None and spec.name == "colorsys"
