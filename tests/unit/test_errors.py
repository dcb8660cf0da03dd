"""Errors: one exit code each, shown as a message and a hint, never as a traceback."""

import pkgutil

import click
import pytest

from pasture import errors
from pasture_tools import cli
from pasture_tools.cli import main

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.PastureError)
]


def test_every_kind_of_error_has_an_exit_code_of_its_own() -> None:
    codes = [kind.exit_code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    assert all(0 < code < 64 for code in codes)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Adds the command `fail`, which raises the one exception put into the list."""
    to_raise: list[BaseException] = []

    def fail() -> None:
        raise to_raise[0]

    monkeypatch.setitem(main.cli.commands, "fail", click.Command("fail", callback=fail))
    monkeypatch.setattr(main.LazyGroup, "get_command", click.Group.get_command)
    return to_raise


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_ends_the_command_with_its_code_and_its_hint(
    failing: list[BaseException],
    kind: type[errors.PastureError],
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing.append(kind("it went wrong", hint="do it right"))
    assert main.run(["fail"]) == kind.exit_code
    assert capsys.readouterr() == ("", "error: it went wrong\nhint: do it right\n")


def test_an_error_without_a_hint_shows_none(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(errors.PastureError("it went wrong"))
    assert main.run(["fail"]) == 1
    assert capsys.readouterr().err == "error: it went wrong\n"


def test_an_interrupt_ends_the_command_as_a_shell_reports_it(
    failing: list[BaseException],
) -> None:
    failing.append(KeyboardInterrupt())
    assert main.run(["fail"]) == 130


def test_a_defect_is_not_taken_for_a_mistake_of_the_user(failing: list[BaseException]) -> None:
    failing.append(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main.run(["fail"])


def test_every_command_has_a_line_of_help() -> None:
    context = click.Context(main.cli)
    for name in main.cli.list_commands(context):
        command = main.cli.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str()


@pytest.mark.parametrize("name", main.COMMANDS)
def test_the_list_shows_the_first_line_of_each_commands_help(name: str) -> None:
    command = main.cli.get_command(click.Context(main.cli), name)
    assert command is not None
    assert command.get_short_help_str(limit=200) == main.COMMANDS[name]


def test_every_module_beside_the_group_and_its_numbers_is_a_command_of_the_list() -> None:
    found = {module.name.rstrip("_") for module in pkgutil.iter_modules(cli.__path__)}
    assert found - {"main", "numbers"} == set(main.COMMANDS) - set(main.IN_EXTRAS)
