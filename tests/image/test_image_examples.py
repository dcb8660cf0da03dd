"""examples/helpers: out of an image they say what they say by `python`, many at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from images import BIN, STUB, TIMEOUT_S, Images
from running import completed

from examples.helpers import code_pool, conversation, sessions

pytestmark = [pytest.mark.once, pytest.mark.integration]

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "helpers"
PACKAGES = Path(sys.prefix) / "image-packages"
RAY = Path(sys.prefix) / "ray-packages"
HELPERS = Path(sys.prefix) / "helper-packages"
NEEDED = "make test-image-recipes"
WITH_HELPERS = pytest.mark.skipif(not HELPERS.exists(), reason=NEEDED)


def test_the_pool_runs_code_with_limits(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("PYTHON", "LC_", "LANG"))]:
        monkeypatch.delenv(name)
    for name, value in images.variables.items():
        monkeypatch.setenv(name, value)
    mapped = "print('app.img' in open('/proc/self/maps').read())"
    done, failed = code_pool.run_all([f"import json; {mapped}", "1/0"])
    assert (done.status, done.output) == (0, "True\n")
    assert (failed.status, "ZeroDivisionError" in failed.output) == (1, True)
    little = code_pool.Limits(memory_bytes=300 << 20)
    assert "MemoryError" in code_pool.run_code("bytearray(1 << 30)", little).output
    endless = code_pool.run_code("while True: pass", code_pool.Limits(cpu_seconds=1, seconds=60))
    assert endless.status < 0
    late = code_pool.run_code("import time; time.sleep(60)", code_pool.Limits(seconds=0.5))
    assert (late.ran_out_of_time, late.status) == (True, -9)


def test_workers_of_xdist_come_out_of_an_image(own_images: Images) -> None:
    folder = own_images.folder
    (folder / "test_it.py").write_text(
        "def test_a(): assert '.xdist.img' in open('/proc/self/maps').read()\n"
        "def test_b(): assert '.xdist.img' in open('/proc/self/maps').read()\n"
    )
    for _ in range(2):  # the second time the image is there
        words = (EXAMPLES / "xdist.sh", "2", "-p", "no:cacheprovider", "test_it.py")
        path = {"PATH": f"{BIN}:{os.environ['PATH']}"}
        done = completed(words, env={**own_images.environ, **path}, cwd=folder)
        assert "2 passed" in done.stdout, done.stdout + done.stderr


# Started as JupyterLab starts it, which puts its own process id into the kernel's environment.
KERNEL = """
from jupyter_client.manager import start_new_kernel
kernel, client = start_new_kernel(kernel_name="image", startup_timeout=300)
for cell in (
    "print(6 * 7)",
    "from ipykernel.kernelapp import IPKernelApp as A; import os; a = A.instance()",
    "print(a.parent_handle == os.getppid(), a.poller.is_alive())",
    "import sys; print('app.img' in open('/proc/self/maps').read())",
):
    print(client.execute_interactive(cell)["content"]["status"])
client.stop_channels()
kernel.shutdown_kernel()
"""


@pytest.mark.skipif(not PACKAGES.exists(), reason=NEEDED)
def test_a_kernel_that_jupyter_starts_comes_out_of_an_image(own_images: Images) -> None:
    place = own_images.folder / "kernels" / "image"
    place.mkdir(parents=True)
    text = (EXAMPLES / "kernel.json").read_text()
    (place / "kernel.json").write_text(text.replace("/srv/kernel.img", str(own_images.image)))
    own_images.environ |= {"PYTHONPATH": str(PACKAGES), "PATH": f"{BIN}:{os.environ['PATH']}"}
    own_images.built_rehearsed(EXAMPLES / "rehearse_kernel.py", "--allow=output", "--allow=folder")
    done = own_images.python("-c", KERNEL, environ={"JUPYTER_PATH": str(own_images.folder)})
    said = done.out.decode().split()
    assert said == ["42", "ok", "ok", "True", "True", "ok", "True", "ok"], done.err.decode()


@pytest.mark.skipif(not RAY.exists(), reason=NEEDED)
def test_a_worker_of_ray_comes_out_of_an_image(own_images: Images) -> None:
    own_images.environ["PYTHONPATH"] = f"{RAY}:{PACKAGES}"
    own_images.built("--preload", "numpy,pandas")
    with TemporaryDirectory(prefix="ray-") as short:  # it makes sockets far below
        environ = {**own_images.variables, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": short}
        done = completed([sys.executable, EXAMPLES / "ray_workers.py"], env=environ)
    assert "pandas was loaded before, the sum is 6" in done.stdout, done.stdout + done.stderr


@pytest.fixture
def helpers(own_images: Images) -> Images:
    own_images.environ["PYTHONPATH"] = f"{HELPERS}:{EXAMPLES}"
    return own_images


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


@WITH_HELPERS
@pytest.mark.parametrize(
    ("name", "source", "session", "framed", "word"),
    [
        ("notes", "from notes import main; main()", sessions.TOOLS, False, "Keep a note"),
        (
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
    helpers: Images, name: str, source: str, session: Any, framed: bool, word: str
) -> None:
    helpers.built_rehearsed(EXAMPLES / f"rehearse_{name}.py")
    out, by = (answers(helpers, p, source, session, framed=framed) for p in (STUB, BIN / "python"))
    assert out == by
    assert word in json.dumps(out[0])


@WITH_HELPERS
def test_a_hook_formats_and_ends_as_by_python(helpers: Images, tmp_path: Path) -> None:
    helpers.built_rehearsed(EXAMPLES / "rehearse_black.py")
    file, found = tmp_path / "one.py", []
    for run in (helpers.run, helpers.python):
        file.write_text("x  = {  'a':1 }\n")
        words = (("--check",), (), ("--check",), ("--no-such",))
        ended = [run("-m", "black", "--no-cache", *one, str(file)) for one in words]
        found.append((ended, file.read_text()))
    assert found[0] == found[1]
    assert [one.status for one in found[0][0]] == [1, 0, 0, 2]
