"""Programs out of an image under `pasture explain` and `pasture top`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from images import TIMEOUT_S, Images
from running import pasture

pytestmark = pytest.mark.integration

WRITES = """
import json, os, sys
json.JSONDecodeError.__doc__
json.decoder.NaN, json.written = 7, [0] * 500_000
if not (child := os.fork()):
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
os.waitpid(child, 0)
"""


@pytest.fixture
def start(images: Images) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    programs: list[subprocess.Popen[bytes]] = []

    def start(source: str) -> subprocess.Popen[bytes]:
        programs.append(images.popen(["-c", source], stdin=-1, stdout=-1))
        return programs[-1]

    yield start
    for program in programs:
        program.communicate(timeout=TIMEOUT_S)


WAITS = "import sys\nprint(flush=True)\nsys.stdin.read()"


@pytest.mark.interpreter
def test_a_program_is_compared_with_its_image(images: Images, start, tmp_path: Path) -> None:
    source = "x = [0] * 500_000\nfor name in ('a', 'b'): setattr(json, name, 1)"
    program = start(f"import json\n{source}\n{WAITS}")
    program.stdout.readline()
    done = pasture("explain", program.pid, "--json", path := tmp_path / "found.json")
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    assert found["image"] == str(images.image) and found["parent"] is None
    assert f"its image {images.image}" in done.stdout
    causes = found["causes"]
    assert causes["new memory"]["bytes"] > 4_000_000  # the list
    # Words that no one knows are few beside pages of the image that were only mapped.
    assert causes["unknown"]["bytes"] < causes["file page"]["bytes"] / 4
    assert sum(cause["os_pages"] > 0 for cause in causes.values()) > 5
    assert abs(found["explained_bytes"] - found["private_bytes"]) < 0.02 * found["private_bytes"]


@pytest.mark.once
def test_programs_out_of_one_image_are_one_group(images: Images, start) -> None:
    first, second = start(WAITS), start(WRITES)
    first.stdout.readline()
    child = int(second.stdout.readline())
    for named in (str(images.image), str(first.pid)):
        done = pasture("top", "--image", named, "--once", "--interval", "0.1")
        assert done.returncode == 0, done.stderr
        rows = {int(words[0]): words for words in map(str.split, done.stdout.splitlines()[1:4])}
        roles = {first.pid: "program", second.pid: "program", child: "worker"}
        assert {pid: words[1] for pid, words in rows.items()} == roles
        assert "2 programs out of one image, 1 worker" in done.stdout
    alone = pasture("top", "--image", str(images.folder / "absent.img"), "--once")
    assert alone.returncode == 2 and "hint: give an image" in alone.stderr
    unused = pasture("top", "--image", str(Path(__file__)), "--once")
    assert unused.returncode != 0 and "no program runs out of" in unused.stderr
    plain = pasture("top", "--image", str(os.getpid()), "--once")
    assert plain.returncode == 2 and "does not run out of an image" in plain.stderr
