"""examples/containers: what the files name is there, and their numbers come from real commands."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pasture.serving.settings import SETTINGS
from pasture_tools.cli.main import cli

yaml = pytest.importorskip("yaml")
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "containers"
OTHERS = {"PASTURE", "PASTURE_IMAGE", "PASTURE_IMAGE_VERBOSE"}
VARIABLES = {setting.variable for setting in SETTINGS.values()} | OTHERS
pytestmark = pytest.mark.once


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def variables() -> set[str]:
    return set(
        re.findall(r"\b(PASTURE(?:_[A-Z]+)*)\b", "".join(p.read_text() for p in FOLDER.iterdir()))
    )


def test_each_variable_is_a_setting() -> None:
    assert variables() <= VARIABLES
    assert "PASTURE" in variables()


def test_the_number_of_workers_is_what_pasture_size_prints() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    words = re.search(r"\$\(pasture (size .*?)\)", text)
    assert words is not None
    plain = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", words[1])

    done = CliRunner().invoke(cli, shlex.split(plain))

    assert done.exit_code == 0, done.output
    assert int(done.stdout) >= 1


def test_the_canary_differs_from_the_deployment_in_its_policy_alone() -> None:
    stock, canary, service = documents("kubernetes.yaml")
    (plain,) = stock["spec"]["template"]["spec"]["containers"]
    sealed, metrics = canary["spec"]["template"]["spec"]["containers"]

    assert plain | {"env": sealed["env"]} == sealed
    assert [plain["env"], sealed["env"]] == [
        [{"name": "PASTURE", "value": "0"}],
        [{"name": "PASTURE", "value": "seal"}],
    ]
    _, name, *words = metrics["command"]
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    command.make_context(name, words)  # or it refuses them
    assert sealed["startupProbe"] and sealed["readinessProbe"]
    for deployment in (stock, canary):
        assert deployment["spec"]["template"]["spec"]["shareProcessNamespace"] is True
    for deployment in (stock, canary):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert labels == deployment["spec"]["selector"]["matchLabels"]
        assert labels["app"] == service["spec"]["selector"]["app"]


@pytest.mark.parametrize("name", ["compose.yaml", "compose.image.yaml"])
def test_both_services_of_compose_have_the_same_limits(name: str) -> None:
    (composed,) = documents(name)
    limits = [(one["mem_limit"], one["cpus"]) for one in composed["services"].values()]
    assert len(limits) == 2 and limits[0] == limits[1]
