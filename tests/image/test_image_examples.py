"""The recipes in examples/helpers that start many processes do what their pages say."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest
from images import BIN, TIMEOUT_S, Images

pytestmark = [pytest.mark.once, pytest.mark.integration]

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "helpers"
PACKAGES = Path(sys.prefix) / "image-packages"
RAY = Path(sys.prefix) / "ray-packages"
NEEDED = "make test-image-recipes"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


def test_the_pool_runs_code_with_limits(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = module("code_pool")
    for name in [name for name in os.environ if name.startswith(("PYTHON", "LC_", "LANG"))]:
        monkeypatch.delenv(name)
    for name, value in images.variables.items():
        monkeypatch.setenv(name, value)
    mapped = "print('app.img' in open('/proc/self/maps').read())"
    done, failed = pool.run_all([f"import json; {mapped}", "1/0"])
    assert (done.status, done.output) == (0, "True\n")
    assert (failed.status, "ZeroDivisionError" in failed.output) == (1, True)
    little = pool.Limits(memory_bytes=300 << 20)
    assert "MemoryError" in pool.run_code("bytearray(1 << 30)", little).output
    endless = pool.run_code("while True: pass", pool.Limits(cpu_seconds=1, seconds=60))
    assert endless.status < 0
    late = pool.run_code("import time; time.sleep(60)", pool.Limits(seconds=0.5))
    assert (late.ran_out_of_time, late.status) == (True, -9)


def test_workers_of_xdist_come_out_of_an_image(own_images: Images) -> None:
    folder = own_images.folder
    (folder / "test_it.py").write_text(
        "def test_a(): assert '.xdist.img' in open('/proc/self/maps').read()\n"
        "def test_b(): assert '.xdist.img' in open('/proc/self/maps').read()\n"
    )
    for _ in range(2):  # the second time the image is there
        done = subprocess.run(
            [EXAMPLES / "xdist.sh", "2", "-p", "no:cacheprovider", "test_it.py"],
            env={**own_images.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
            cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
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
    rehearsal = str(EXAMPLES / "rehearse_kernel.py")
    own_images.built("--preload", "ipykernel", "--rehearse", rehearsal, "--rehearse-imports")
    done = own_images.python("-c", KERNEL, environ={"JUPYTER_PATH": str(own_images.folder)})
    said = done.out.decode().split()
    assert said == ["42", "ok", "ok", "True", "True", "ok", "True", "ok"], done.err.decode()


@pytest.mark.skipif(not RAY.exists(), reason=NEEDED)
def test_a_worker_of_ray_comes_out_of_an_image(own_images: Images) -> None:
    own_images.environ["PYTHONPATH"] = f"{RAY}:{PACKAGES}"
    own_images.built("--preload", "numpy,pandas")
    with TemporaryDirectory(prefix="ray-") as short:  # it makes sockets far below
        done = subprocess.run(
            [sys.executable, EXAMPLES / "ray_workers.py"],
            env={**own_images.variables, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": short},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert "pandas was loaded before, the sum is 6" in done.stdout, done.stdout + done.stderr
