"""`--preload pasture.zygote.jupyter`: what a kernel of Jupyter has loaded once it has run a cell.

A kernel imports much of itself only while it starts, and more with its first cell. No list of names
stays true, so they are learnt: when this module is loaded, a kernel runs in a process of its own,
answers, completes a name, and tells what it has loaded by then.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_PATIENCE_S = 120.0
_LAUNCHER = "ipykernel_launcher"
"""What specifications of kernels name. Zygotes are chosen by it."""
_CELL = "import json as j, sys as s\nwith open({!r}, 'w') as f: j.dump(list(s.modules), f)"


def _load() -> None:
    """Import what a kernel imports, in its order. What a kernel has made otherwise is left out."""
    for name in (_LAUNCHER, *_learnt()):
        if name not in sys.modules and not name.startswith("__"):
            try:
                importlib.import_module(name)
            except ImportError:
                continue


def _learnt() -> list[str]:
    """Names of the modules of a kernel.

    Raises:
        ImportError: no kernel can be started.
    """
    command = [sys.executable, "-m", __name__]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
    except subprocess.CalledProcessError as error:
        raise ImportError(f"no kernel of Jupyter starts: {error.stderr}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImportError(f"no kernel of Jupyter starts: {error}") from None
    found: list[str] = json.loads(done.stdout)
    return found


def _rehearse() -> None:
    """Run a kernel in a folder of its own, and print the names."""
    from jupyter_client.blocking.client import BlockingKernelClient
    from jupyter_client.connect import write_connection_file

    with tempfile.TemporaryDirectory() as folder:
        file, names = f"{folder}/connection.json", Path(folder) / "names"
        key = os.urandom(16).hex().encode()
        write_connection_file(file, ip=f"{folder}/channel", transport="ipc", key=key)
        command = [sys.executable, "-m", _LAUNCHER, "-f", file]
        environ = {**os.environ, "IPYTHONDIR": folder, "JPY_PARENT_PID": f"{os.getpid()}"}
        kernel = subprocess.Popen(command, env=environ, stdout=sys.stderr)
        try:
            client = BlockingKernelClient(connection_file=file)
            client.load_connection_file()
            client.start_channels(stdin=False, hb=False)
            client.wait_for_ready(timeout=_PATIENCE_S)
            client.complete("pri", reply=True, timeout=_PATIENCE_S)
            client.execute(_CELL.format(str(names)), reply=True, timeout=_PATIENCE_S)
            client.stop_channels()
            print(names.read_text())
        finally:
            kernel.kill()
            kernel.wait()


if __name__ == "__main__":
    _rehearse()
else:
    _load()
