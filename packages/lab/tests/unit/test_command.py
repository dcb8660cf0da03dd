"""The command line of `pasture lab`: its mistakes, and the list."""

import pytest

from pasture_lab.experiments import EXPERIMENTS
from pasture_tools.cli.main import run


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "name experiments, or say --all"),
        (["run", "micro", "--all"], "name experiments, or say --all"),
        (["run", "macro"], "no experiment is called 'macro'"),
        (["run", "micro", "--site", "/nowhere"], "holds no manage.py"),
        (["run", "micro", "--python", "/nowhere/pypy"], "cannot run /nowhere/pypy"),
        (["run", "micro", "--python", "a b=/bin/sh"], "cannot name an interpreter"),
        (["run", "micro", "--python", "a=/bin/sh", "--python", "a=/bin/sh"], "are called a"),
    ],
)
def test_a_mistake_on_the_command_line_is_said(
    capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["lab", *arguments]) == 2
    assert said in capfd.readouterr().err


@pytest.mark.once
def test_the_list_names_every_experiment(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "list"]) == 0
    listed = capfd.readouterr().out
    for name in EXPERIMENTS:
        assert name in listed
