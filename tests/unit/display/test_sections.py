"""Help texts in groups: options of long commands, and the list of commands."""

import re
from collections.abc import Mapping

import click
import pytest
from click.testing import CliRunner

from pasture.sealing.policy import POLICIES
from pasture_tools.cli import main, run, try_
from pasture_tools.display.sections import OrderedGroup, SectionedCommand

pytestmark = pytest.mark.once


def help_of(command: click.Command) -> str:
    return CliRunner().invoke(command, ["--help"], prog_name="pasture").output


def headings_of(command: click.Command) -> Mapping[str, str]:
    assert isinstance(command, SectionedCommand)
    return command.headings


@pytest.mark.parametrize("command", [try_.command, run.command], ids=["try", "run"])
def test_each_option_stands_once_below_the_heading_before_it(command: click.Command) -> None:
    text = help_of(command)
    headings = [f"\n{heading}:\n" for heading in headings_of(command).values()]
    places = [text.index(heading) for heading in headings]
    assert places == sorted(places) and "\nOptions:\n" not in text
    options = [each for each in command.params if isinstance(each, click.Option)]
    listed = re.findall(r"^  (?:-\w, )?(--[\w-]+)", text[places[0] :], re.MULTILINE)
    assert [listed.count(each.opts[-1]) for each in options] == [1] * len(options)


def test_headings_name_options_that_there_are() -> None:
    for command in (try_.command, run.command):
        assert set(headings_of(command)) <= {each.name for each in command.params}
    assert set(main.HEADINGS) <= set(main.COMMANDS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("tyr", "try"), ("explian", "explain"), ("gunicorn", "run gunicorn")],
)
def test_a_mistyped_command_is_met_with_a_guess(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([typed, "-w", "4"]) == 2
    said = f"there is no command '{typed}'\nhint: did you mean pasture {meant}?"
    assert said in capsys.readouterr().err


def test_commands_of_a_group_stand_in_the_order_of_use() -> None:
    @click.group(cls=OrderedGroup)
    def group() -> None: ...

    for name in ("start", "look", "end"):
        group.command(name)(lambda: None)
    lines = help_of(group).partition("Commands:\n")[2].splitlines()
    assert [line.strip() for line in lines] == ["start", "look", "end"]


def test_a_word_that_is_like_no_command_gets_no_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["xyzzy"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_each_policy_says_when_to_choose_it() -> None:
    listed = help_of(try_.command)
    for policy in POLICIES.values():
        assert policy.choose and f"{policy.name}  " in listed and policy.choose in listed
