"""examples/helpers: out of an image they say what they say by `python`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from images import BIN, STUB, TIMEOUT_S, Images

from examples.helpers import conversation, sessions

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "helpers"
PACKAGES = Path(sys.prefix) / "helper-packages"

pytestmark = [
    pytest.mark.once,
    pytest.mark.integration,
    pytest.mark.skipif(not PACKAGES.exists(), reason="make test-image-recipes"),
]


@pytest.fixture
def helpers(own_images: Images) -> Images:
    own_images.environ["PYTHONPATH"] = f"{PACKAGES}:{EXAMPLES}"
    return own_images


def rehearsed(helpers: Images, module: str, name: str) -> None:
    rehearsal = str(EXAMPLES / f"rehearse_{name}.py")
    helpers.built("--preload", module, "--rehearse", rehearsal, "--rehearse-imports")
    assert helpers.why() == ""


def answers(
    helpers: Images, program: Path, source: str, session: Any, *, framed: bool
) -> tuple[list[Any], int]:
    """Answers to messages, and the exit status."""
    environ = {**helpers.environ, "PASTURE_IMAGE": str(helpers.image)}
    pipe = subprocess.PIPE
    server = subprocess.Popen(
        [program, "-c", source], env=environ, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    )
    found: list[Any] = []
    for message in session:
        conversation.send(server.stdin, message, framed=framed)  # type: ignore[arg-type]
        if "id" in message:
            answer: Any = {}
            while answer.get("id") != message["id"]:
                answer = conversation.receive(server.stdout, framed=framed)  # type: ignore[arg-type]
            found.append(answer["result"])
    server.communicate(timeout=TIMEOUT_S)
    return found, server.returncode


@pytest.mark.parametrize(
    ("module", "name", "source", "session", "framed", "word"),
    [
        ("notes", "notes", "from notes import main; main()", sessions.TOOLS, False, "Keep a note"),
        (
            "jedi_language_server.cli",
            "jedi",
            "from jedi_language_server.cli import cli; cli()",
            sessions.EDITOR + sessions.LEAVE,
            True,
            '"dumps"',
        ),
    ],
    ids=["server of tools", "language server"],
)
def test_a_server_over_stdio_answers_as_by_python(
    helpers: Images, module: str, name: str, source: str, session: Any, framed: bool, word: str
) -> None:
    rehearsed(helpers, module, name)
    out, by = (answers(helpers, p, source, session, framed=framed) for p in (STUB, BIN / "python"))
    assert out == by
    assert word in json.dumps(out[0])


def test_a_hook_formats_and_ends_as_by_python(helpers: Images, tmp_path: Path) -> None:
    rehearsed(helpers, "black", "black")
    file, found = tmp_path / "one.py", []
    for run in (helpers.run, helpers.python):
        file.write_text("x  = {  'a':1 }\n")
        words = (("--check",), (), ("--check",), ("--no-such",))
        ended = [run("-m", "black", "--no-cache", *one, str(file)) for one in words]
        found.append((ended, file.read_text()))
    assert found[0] == found[1]
    assert [one.status for one in found[0][0]] == [1, 0, 0, 2]
