"""The command line of `pasture lab`: its mistakes, and the list."""

import pytest

from pasture_lab.experiments import EXPERIMENTS
from pasture_tools.cli.main import run


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["micro", "--all"], "name experiments, or say --all"),
        (["macro"], "no experiment is called 'macro'"),
        (["micro", "--site", "/nowhere"], "holds no manage.py"),
        (["micro", "--python", "/nowhere/pypy"], "cannot run /nowhere/pypy"),
        (["micro", "--python", "a b=/bin/sh"], "cannot name an interpreter"),
        (["micro", "--python", "a=/bin/sh", "--python", "a=/bin/sh"], "are called a"),
    ],
)
def test_a_mistake_on_the_command_line_is_said(
    capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["lab", *arguments]) == 2
    assert said in capfd.readouterr().err


@pytest.mark.once
def test_the_list_names_every_experiment(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["lab"]) == 0
    listed = capfd.readouterr().out
    for name in EXPERIMENTS:
        assert name in listed
