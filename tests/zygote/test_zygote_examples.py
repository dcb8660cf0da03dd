"""The adapters in examples/zygote/ do what their pages say."""

from __future__ import annotations

import configparser
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from zygotes import BIN, PATIENCE_S, STUB, Zygotes

pytestmark = [pytest.mark.once, pytest.mark.integration]

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "zygote"
PACKAGES = Path(sys.prefix) / "zygote-packages"


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
        cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert own_zygotes.served() >= 2


@pytest.mark.skipif(not PACKAGES.exists(), reason="make .venvs/3.14/zygote-packages.stamp")
def test_a_kernel_of_jupyter_answers_out_of_a_zygote(own_zygotes: Zygotes) -> None:
    own_zygotes.environ["PYTHONPATH"] = str(PACKAGES)
    own_zygotes.pasture("start", "--preload", "ipykernel_launcher,ipykernel.kernelapp")
    before = own_zygotes.served()
    specification = json.loads((EXAMPLES / "kernel.json").read_text())
    file = own_zygotes.folder / "connection.json"
    words = [word.replace("{connection_file}", str(file)) for word in specification["argv"]]
    assert words.pop(0) == STUB.name
    source = (
        "import subprocess, sys\n"
        "from jupyter_client.connect import write_connection_file\n"
        "from jupyter_client.blocking.client import BlockingKernelClient\n"
        f"write_connection_file({str(file)!r}, transport='ipc', ip={str(file) + '-s'!r})\n"
        f"kernel = subprocess.Popen({[str(STUB), *words]!r})\n"
        f"client = BlockingKernelClient(connection_file={str(file)!r})\n"
        "client.load_connection_file(); client.start_channels(); client.wait_for_ready(60)\n"
        "answer = client.execute_interactive('print(6 * 7)')\n"
        "print(answer['content']['status']); client.shutdown(); print(kernel.wait(60))\n"
    )
    done = own_zygotes.python("-c", source)
    assert done.out.split()[-3:] == [b"42", b"ok", b"0"], done.err.decode()
    assert own_zygotes.served() - before == 1


def test_the_units_of_systemd_can_be_read() -> None:
    for name, section in (("socket", "Socket"), ("service", "Service")):
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read(EXAMPLES / f"pasture-zygote.{name}")
        assert unit.has_section(section)
