"""The image of a trial: what is asked for, and how it is built."""

from pathlib import Path

import pytest

from pasture.errors import MissingExtra, ServerFailed
from pasture.sealing.policy import POLICIES
from pasture.trial import image
from pasture.trial.notes import shortfalls
from pasture.trial.plan import TrialPlan, check_plan
from pasture.trial.server import RunFiles, server_command, server_environment
from pasture.warmup.requests import Request

pytestmark = pytest.mark.once

STUB_SAYS = """\
#!/bin/sh
echo "$@" > {folder}/words
echo error: the builder says why >&2
exit 17
"""


def plan(python: Path, **more: object) -> TrialPlan:
    given = {"app": "site.wsgi:app", "policies": ("image",), "server_python": str(python)}
    return TrialPlan(**{**given, **more})  # type: ignore[arg-type]


def test_an_image_needs_the_stub_beside_the_servers_interpreter(tmp_path: Path) -> None:
    with pytest.raises(MissingExtra, match="needs pasture-python next to"):
        check_plan(plan(tmp_path / "python"))
    (tmp_path / "pasture-python").write_text("")
    check_plan(plan(tmp_path / "python"))


def test_the_server_is_started_by_the_stub_with_the_image_and_its_folder(tmp_path: Path) -> None:
    files = RunFiles(tmp_path, tmp_path / "log")
    found = plan(tmp_path / "python", chdir=tmp_path, env={"PYTHONPATH": "/users"})
    command = server_command(found, "image", 80, files)
    assert command[:3] == [str(tmp_path / "pasture-python"), "-m", "pasture.servers.gunicorn"]
    environ = server_environment(found, "image", files, tmp_path / "app.img")
    assert environ["PASTURE_IMAGE"] == str(tmp_path / "app.img")
    assert environ["PASTURE_POLICY"] == "image"
    assert environ["PYTHONPATH"] == f"{tmp_path}:/users"
    assert "PASTURE_IMAGE" not in server_environment(found, "seal", files)


@pytest.mark.parametrize(("app", "is_warmed"), [("site.wsgi:app", True), ("site:make(1)", False)])
def test_a_build_names_variables_without_their_values_and_says_why_it_failed(
    tmp_path: Path, app: str, is_warmed: bool
) -> None:
    python = tmp_path / "python"
    python.write_text(STUB_SAYS.format(folder=tmp_path))
    python.chmod(0o755)
    files = RunFiles(tmp_path, tmp_path / "log")
    variables = {"TOKEN": "s3cret", "PASTURE_POLICY": "image", "PATH": "/bin:/usr/bin"}
    with pytest.raises(ServerFailed) as raised:
        image.build(
            plan(python, app=app), files, variables, (Request("GET", "/"),),
            lambda event: None, lambda seconds: None,
        )  # fmt: skip
    assert raised.value.message == f"no image of {app} can be built: the builder says why"
    words = (tmp_path / "words").read_text().split()
    assert {"--env", *variables} < set(words)
    assert not any("s3cret" in word for word in words)
    assert words[words.index("--preload") + 1].endswith(f",{app.partition(':')[0]}")
    assert ("--app" in words) is is_warmed


def test_a_server_that_did_not_start_out_of_its_image_has_that_in_its_row() -> None:
    log = "pasture-python: /env/bin/python: a variable that matters at the start: TERM\n"
    found = shortfalls(POLICIES["image"], None, {"sealed": True}, log)  # type: ignore[arg-type]
    assert found == ("did not start out of its image: a variable that matters at the start: TERM",)
    log = "pasture-python: started from the image: /tmp/app.img\n"
    assert shortfalls(POLICIES["image"], None, {"sealed": True}, log) == ()  # type: ignore[arg-type]
