"""Rehearsals: code that they run lies together in programs, and nothing else of them remains."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from images import Images

from pasture.errors import ImageFailed
from pasture_image.inside import rehearsal

pytestmark = pytest.mark.integration

COUNT = 600
MODULE = f"""
state = []
class Holder: attribute = 3
source = "".join(
    f"def f{{n}}(a):\\n    b = a.attribute\\n    return b if b else a\\n" for n in range({COUNT})
)
exec(source)
functions = [globals()[f"f{{n}}"] for n in range({COUNT})]
hot = functions[::20]
def pages(of): return len({{id(f.__code__) // 4096 for f in of}})
"""
SCRIPT = """
import sys, many
many.state.append("rehearsed")
print("said in a rehearsal")
for function in many.hot: function(many.Holder)
print(sys.argv, __name__, file=sys.stderr)
sys.exit(0)
"""
PROGRAM = "import many; print(many.pages(many.hot), many.pages(many.functions[1::20]), many.state)"


def written(images: Images, script: str) -> str:
    images.module("many", MODULE)
    return str(images.module("script", script))


def brings(images: Images, does: str) -> None:
    """A module that brings a rehearsal."""
    images.module("many", MODULE)
    images.module(
        "brings",
        "import many\nfrom pasture_image.rehearsal import rehearse\n"
        f"@rehearse\ndef use(): {does}\n",
    )


# On each version: programs of each kind come out of an image in none of the others but one.
def test_code_that_a_rehearsal_runs_lies_together_and_its_state_is_gone(own_images: Images) -> None:
    path = written(own_images, SCRIPT)
    done = own_images.build("--preload", "many", "--rehearse", path)
    assert own_images.why() == ""
    hot, cold, state = own_images.run("-c", PROGRAM).out.split(maxsplit=2)
    assert (int(hot) <= 5, int(cold) >= 20, state) == (True, True, b"[]\n")
    descriptors = (
        "-c",
        "import os; print([n for n in os.listdir('/proc/self/fd') if int(n) < 900])",
    )
    assert own_images.run(*descriptors) == own_images.python(*descriptors)
    assert "said in a rehearsal" in done.stderr
    assert done.stderr.count(f"['{path}'] __main__") == 1


@pytest.mark.once
def test_a_preloaded_module_can_bring_its_rehearsal(own_images: Images) -> None:
    brings(own_images, "return [function(many.Holder) for function in many.hot] and None")
    own_images.built("--preload", "brings")
    hot, cold, _ = own_images.run("-c", PROGRAM).out.split(maxsplit=2)
    assert (int(hot) <= 5, int(cold) >= 20) == (True, True)


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
    note = tmp_path / "pid"
    monkeypatch.setattr(rehearsal, "TIMEOUT_S", 2.0)
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal\n"
        'pid = os.spawnv(os.P_NOWAIT, "/bin/sleep", ["sleep", "600"])\n'
        f"open({str(note)!r}, 'w').write(str(pid))\n"
        "signal.pause()\n"
    )
    environ = os.memfd_create("environment")
    with pytest.raises(ImageFailed, match="did not end within 2 s"):
        rehearsal.choose_code(str(script), environ, ())
    pid = int(note.read_text())
    deadline = time.monotonic() + 300
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.once
def test_a_module_whose_rehearsal_fails_is_preloaded_without_it(own_images: Images) -> None:
    brings(own_images, "many.nothing")
    done = own_images.build("--preload", "brings")
    assert "brings: the rehearsal ended with an error" in done.stderr
    assert own_images.why() == ""
