"""The adapters in examples/zygote/ do what their pages say."""

from __future__ import annotations

import configparser
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest
from zygotes import BIN, TIMEOUT_S, Zygotes

pytestmark = [pytest.mark.once, pytest.mark.integration]

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "zygote"
PACKAGES = Path(sys.prefix) / "zygote-packages"
RAY = Path(sys.prefix) / "ray-packages"
NEEDED = "make test-zygote-adapters"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


def test_the_pool_runs_code_with_limits(zygotes: Zygotes, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = module("code_pool")
    for name in ("XDG_RUNTIME_DIR", "HOME"):
        monkeypatch.setenv(name, zygotes.environ[name])
    before = zygotes.served()
    done, failed = pool.run_all(["import json; print(json.dumps([1]))", "1/0"])
    assert (done.status, done.output) == (0, "[1]\n")
    assert (failed.status, "ZeroDivisionError" in failed.output) == (1, True)
    little = pool.Limits(memory_bytes=300 << 20)
    assert "MemoryError" in pool.run_code("bytearray(1 << 30)", little).output
    endless = pool.run_code("while True: pass", pool.Limits(cpu_seconds=1, seconds=60))
    assert endless.status < 0
    late = pool.run_code("import time; time.sleep(60)", pool.Limits(seconds=0.5))
    assert (late.ran_out_of_time, late.status) == (True, -9)
    assert zygotes.served() - before == 5


def test_workers_of_xdist_come_out_of_a_zygote(own_zygotes: Zygotes) -> None:
    folder = own_zygotes.folder
    (folder / "test_it.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    variables = own_zygotes.environ.items()
    without_pytest = {k: v for k, v in variables if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [EXAMPLES / "xdist.sh", "2", "-p", "no:cacheprovider", "test_it.py"],
        env={**without_pytest, "PATH": f"{BIN}:{os.environ['PATH']}"},
        cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert own_zygotes.served() >= 2


# Started as JupyterLab starts it, which puts its own process id into the kernel's environment.
KERNEL = """
from jupyter_client.manager import start_new_kernel
kernel, client = start_new_kernel(kernel_name="zygote", startup_timeout=60)
for cell in (
    "print(6 * 7)",
    "from ipykernel.kernelapp import IPKernelApp as A; import os; a = A.instance()",
    "print(a.parent_handle == os.getppid(), a.poller.is_alive())",
    "import sys; print('pasture-zygote' in open('/proc/self/maps').read())",
):
    print(client.execute_interactive(cell)["content"]["status"])
client.stop_channels()
kernel.shutdown_kernel()
"""


@pytest.mark.skipif(not PACKAGES.exists(), reason=NEEDED)
def test_a_kernel_that_jupyter_starts_comes_out_of_a_zygote(own_zygotes: Zygotes) -> None:
    place = own_zygotes.folder / "kernels" / "zygote"
    place.mkdir(parents=True)
    (place / "kernel.json").write_text((EXAMPLES / "kernel.json").read_text())
    own_zygotes.environ |= {
        "PYTHONPATH": str(PACKAGES),
        "JUPYTER_PATH": str(own_zygotes.folder),
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    own_zygotes.pasture("start", "--preload", "pasture.zygote.jupyter")
    done = own_zygotes.python("-c", KERNEL)
    said = done.out.decode().split()
    assert said == ["42", "ok", "ok", "True", "True", "ok", "True", "ok"], done.err.decode()
    assert own_zygotes.status()["default"]["served"] == 1


@pytest.mark.skipif(not RAY.exists(), reason=NEEDED)
def test_a_worker_of_ray_comes_out_of_a_zygote(own_zygotes: Zygotes) -> None:
    own_zygotes.environ |= {
        "PYTHONPATH": f"{RAY}:{PACKAGES}",
        "RAY_AUTH_MODE": "disabled",
    }
    own_zygotes.pasture("start", "--name", "app", "--preload", "numpy,pandas")
    with TemporaryDirectory(prefix="ray-") as short:  # it makes sockets far below
        done = subprocess.run(
            [sys.executable, EXAMPLES / "ray_workers.py"],
            env={**own_zygotes.environ, "RAY_TMPDIR": short},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert "pandas was loaded before, the sum is 6" in done.stdout, done.stdout + done.stderr
    assert own_zygotes.status()["app"]["served"] >= 1


def test_the_units_of_systemd_can_be_read() -> None:
    for name, section in (("socket", "Socket"), ("service", "Service")):
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read(EXAMPLES / f"pasture-zygote.{name}")
        assert unit.has_section(section)
