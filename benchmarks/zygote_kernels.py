"""`zygote_kernels.py PROGRAM COUNT`: seconds until so many kernels have answered."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

PATIENCE_S = 900


def main() -> None:
    """Start them, ask each, end them."""
    program, count = sys.argv[1], int(sys.argv[2])
    processes, clients = [], []
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / f"{n}.json") for n in range(count)]
        for file in files:
            write_connection_file(file, ip=f"{folder}/{Path(file).stem}", transport="ipc")
        began = time.perf_counter()
        for file in files:
            command = [program, "-m", "ipykernel_launcher", "-f", file]
            processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        for file in files:
            client = BlockingKernelClient(connection_file=file)
            client.load_connection_file()
            client.start_channels(stdin=False, hb=False)
            client.wait_for_ready(timeout=PATIENCE_S)
            clients.append(client)
        print(time.perf_counter() - began, flush=True)
        for client in clients:
            client.stop_channels()
        for process in processes:
            process.kill()
            process.wait()


main()
