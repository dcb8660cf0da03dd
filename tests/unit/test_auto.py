"""Which engine a program is, as the start file of `pasture[auto]` sees it."""

import importlib.util
import sys

import pytest

import pasture_auto
from pasture.servers import sealer
from pasture_auto import ENGINES, PROGRAMS, modules_of, program_of

pytestmark = pytest.mark.once

ANY = tuple(module for module in ENGINES if module != "multiprocessing.forkserver")


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
def test_a_command_line_tells_what_it_runs(words: list[str], program: tuple[str, str]) -> None:
    assert program_of(words) == program


@pytest.mark.parametrize(
    ("program", "modules"),
    [
        (("", "/opt/bin/gunicorn"), ("gunicorn.app.base",)),
        (("m", "uvicorn.main"), ("uvicorn.main",)),
        (("", "huey_consumer.py"), ("huey.consumer",)),
        (("", "train.py"), ANY),
        (("m", "my_site.serve"), ANY),
        (("m", "pasture.servers.gunicorn"), ()),
        (("", "/opt/bin/ddtrace-run"), ()),
        (
            ("c", "import sys; from multiprocessing.forkserver import main; main(3)"),
            ("multiprocessing.forkserver",),
        ),
        (("c", "from multiprocessing.spawn import spawn_main; spawn_main()"), ()),
        (("", ""), ()),
    ],
)
def test_a_known_program_waits_for_its_own_engine_and_another_for_any(
    program: tuple[str, str], modules: tuple[str, ...]
) -> None:
    assert modules_of(program) == modules


def test_every_engine_has_its_switch_and_every_program_its_engine() -> None:
    for switch in ENGINES.values():
        assert importlib.util.find_spec(switch) is not None, switch
    for modules in PROGRAMS.values():
        assert set(modules) <= set(ENGINES)


@pytest.mark.parametrize("value", ["", "0", "off", "OFF"])
def test_off_is_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finders: list[object] = []
    monkeypatch.setenv("PASTURE", value)
    monkeypatch.setattr(sys, "meta_path", finders)
    pasture_auto.start()
    assert finders == []


def test_a_program_that_is_several_engines_shows_each_line_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sealer.log, "handlers", [])
    monkeypatch.setattr(sealer.log, "propagate", True)
    monkeypatch.setattr(sealer.log, "level", sealer.log.level)
    monkeypatch.setattr(sealer.log, "disabled", False)

    sealer.show_log()
    sealer.show_log()
    sealer.log.warning("sealed")

    assert capsys.readouterr().err == "pasture: sealed\n"
