"""`--preload pasture_image.jupyter`: what a kernel of Jupyter has loaded once it has run a cell.

A kernel imports much of itself only while it starts, and more with its first cell, and it compiles
regular expressions, a tenth of its start. No list of them stays true, so they are learnt: when this
module is loaded, a kernel runs in a process of its own, answers, completes a name, and says what
it has loaded and compiled by then. With all of that loaded another one rehearses (`rehearsal`).
"""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

from pasture_image.inside.rehearsal import rehearse

_TIMEOUT_S = 120.0
_LAUNCHER = "ipykernel_launcher"
"""What specifications of kernels name."""
_CELL = """
import json, re, sys
with open({!r}, "w") as file:
    known = [key[1:] for key in getattr(re, "_cache", ()) if key[0] is str]
    json.dump([list(sys.modules), known], file)
"""
"""`re` keeps what it has compiled by type, pattern and flags (CPython 3.11 to 3.15)."""


def _load() -> None:
    """Import what a kernel imports, in its order. What a kernel has made otherwise is left out."""
    modules, patterns = _learnt()
    for name in (_LAUNCHER, *modules):
        if name not in sys.modules and not name.startswith("__"):
            try:
                importlib.import_module(name)
            except ImportError:
                continue
    for pattern, flags in patterns:
        re.compile(pattern, flags)


def _learnt() -> tuple[list[str], list[tuple[str, int]]]:
    """Names of the modules of a kernel; the regular expressions in the cache of `re`, with flags.

    Raises:
        ImportError: no kernel can be started.
    """
    command = [sys.executable, "-m", __name__]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except subprocess.CalledProcessError as error:
        raise ImportError(f"no kernel of Jupyter starts: {error.stderr}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImportError(f"no kernel of Jupyter starts: {error}") from None
    modules, patterns = json.loads(done.stdout)
    return modules, patterns


def _run_kernel() -> None:
    """A kernel in this process, until its client has had its answers."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = folder
        file = _connection_file(folder)
        client = subprocess.Popen([sys.executable, "-m", __name__, file])
        sys.argv[:] = [_LAUNCHER, "-f", file]
        try:
            runpy.run_module(_LAUNCHER, run_name="__main__")
        finally:
            client.kill()
            client.wait()


def _report() -> None:
    """Start a kernel in a folder of its own, and print what it reports."""
    with tempfile.TemporaryDirectory() as folder:
        file = _connection_file(folder)
        command = [sys.executable, "-m", _LAUNCHER, "-f", file]
        environ = {**os.environ, "IPYTHONDIR": folder, "JPY_PARENT_PID": f"{os.getpid()}"}
        kernel = subprocess.Popen(command, env=environ, stdout=sys.stderr)
        try:
            report = f"{folder}/report"
            _talk(file, report)
            print(Path(report).read_text())
        finally:
            kernel.kill()
            kernel.wait()


def _connection_file(folder: str) -> str:
    from jupyter_client.connect import write_connection_file

    file, key = f"{folder}/connection.json", os.urandom(16).hex().encode()
    write_connection_file(file, ip=f"{folder}/channel", transport="ipc", key=key)
    return file


def _talk(file: str, report: str) -> None:
    """Have a kernel complete a name, run a cell that writes what is to be reported, and end."""
    from jupyter_client.blocking.client import BlockingKernelClient

    client = BlockingKernelClient(connection_file=file)
    client.load_connection_file()
    client.start_channels(stdin=False, hb=False)
    client.wait_for_ready(timeout=_TIMEOUT_S)
    client.complete("pri", reply=True, timeout=_TIMEOUT_S)
    client.execute(_CELL.format(report), reply=True, timeout=_TIMEOUT_S)
    client.shutdown(reply=True, timeout=_TIMEOUT_S)
    client.stop_channels()


if __name__ != "__main__":
    _load()
    rehearse(_run_kernel)
elif len(sys.argv) > 1:
    _talk(sys.argv[1], os.devnull)
else:
    _report()
