"""A kernel of Jupyter that answers one client, for `recipe` and `--rehearse`.

The kernel runs in the rehearsal's own process; the client, another run of this file, completes a
name, runs a cell, and ends it.
"""

import os
import runpy
import subprocess
import sys
import tempfile

LAUNCHER = "ipykernel_launcher"  # what specifications of kernels name
TIMEOUT_S = 120.0


def run_kernel() -> None:
    from jupyter_client.connect import write_connection_file

    with tempfile.TemporaryDirectory() as folder:
        file, key = f"{folder}/connection.json", os.urandom(16).hex().encode()
        write_connection_file(file, ip=f"{folder}/channel", transport="ipc", key=key)
        client = subprocess.Popen([sys.executable, __file__, file])
        sys.argv[:] = [LAUNCHER, "-f", file, f"--ipython-dir={folder}"]
        try:
            runpy.run_module(LAUNCHER, run_name="__main__")
        finally:
            client.kill()
            client.wait()


def talk(file: str) -> None:
    from jupyter_client.blocking.client import BlockingKernelClient

    client = BlockingKernelClient(connection_file=file)
    client.load_connection_file()
    client.start_channels(stdin=False, hb=False)
    client.wait_for_ready(timeout=TIMEOUT_S)
    client.complete("pri", reply=True, timeout=TIMEOUT_S)
    client.execute("6 * 7", reply=True, timeout=TIMEOUT_S)
    client.shutdown(reply=True, timeout=TIMEOUT_S)
    client.stop_channels()


if __name__ == "__main__":
    talk(sys.argv[1]) if len(sys.argv) > 1 else run_kernel()
