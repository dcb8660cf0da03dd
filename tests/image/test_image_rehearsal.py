"""Rehearsals: code that they run lies together in programs, and nothing else of them remains."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from images import Images

from pasture.errors import ImageFailed
from pasture_image.inside import rehearsal

pytestmark = pytest.mark.integration

MODULE = """
import json
state = []
exec("".join(f"def f{n}(a):\\n    b = a + {n}\\n    return b if b else a\\n" for n in range(600)))
functions = [globals()[f"f{n}"] for n in range(600)]
warmed, rehearsed, never = functions[::20], functions[7::20], functions[13::20]
def pages(of): return len({id(f.__code__) // 4096 for f in of})
def application(environ, start_response):
    for function in warmed: function(1)
    start_response("200 OK", [])
    return [b""]
"""
SCRIPT = """
import sys, many
many.state.append("rehearsed")
print("said in a rehearsal")
for function in many.rehearsed: function(1)
print(sys.argv, __name__, file=sys.stderr)
sys.exit(0)
"""
PROGRAM = """
import many, os, pasture
pages = [many.pages(one) for one in (many.warmed, many.rehearsed, many.never)]
print(pages[0] <= 5, pages[1] <= 5, pages[2] >= 20)
print(many.state, [n for n in os.listdir("/proc/self/fd") if int(n) < 900])
before = many.f0.__code__, many.f13.__code__
def late(): pass
late()
[step] = [s for s in pasture.seal().steps if s.name == "gather-code"]
print(step.counts["codes"] < 400, before == (many.f0.__code__, many.f13.__code__))
"""


def written(images: Images, script: str) -> str:
    images.module("many", MODULE)
    return str(images.module("script", script))


# On each version: programs of each kind come out of an image in none of the others but one.
@pytest.mark.parametrize("warm", [(), ("--warm", "/")])
def test_code_that_a_build_has_run_lies_together_once_and_a_rehearsals_state_is_gone(
    own_images: Images, warm: tuple[str, ...]
) -> None:
    path = written(own_images, SCRIPT)
    done = own_images.build("--preload", "many,pasture", *warm, "--rehearse", path)
    together, rest, sealed = own_images.served("-c", PROGRAM).out.decode().splitlines()
    assert together == f"{bool(warm)} True True"
    assert rest == own_images.python("-c", PROGRAM).out.decode().splitlines()[1]
    assert sealed == "True True"
    assert "said in a rehearsal" in done.stderr
    assert done.stderr.count(f"['{path}'] __main__") == 1


@pytest.mark.once
def test_with_a_rehearsal_that_fails_there_is_no_image(own_images: Images) -> None:
    for script in ("import many; many.nothing", "import os; os._exit(0)", "exit(3)"):
        done = own_images.build("--preload", "many", "--rehearse", written(own_images, script))
        assert done.returncode == 17, script
        assert "the rehearsal ended with an error" in done.stderr
        assert not own_images.image.exists()


@pytest.mark.once
def test_a_rehearsal_that_does_not_end_is_ended_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    monkeypatch.setattr(rehearsal, "TIMEOUT_S", 2.0)
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal\n"
        'os.spawnv(os.P_NOWAIT, "/bin/sleep", ["sleep", "600"])\n'
        f"os.write({writer}, b'started')\n"
        "signal.pause()\n"
    )
    environ = os.memfd_create("environment")
    with pytest.raises(ImageFailed, match="did not end within 2 s"):
        rehearsal.choose_code(str(script), environ, ())
    os.close(writer)
    with os.fdopen(reader) as file:
        assert file.read() == "started", "ends once no process has it open"
