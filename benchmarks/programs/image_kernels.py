"""`image_kernels.py PROGRAM COUNT`: seconds until COUNT kernels have answered; of processors that
they took until then; their PSS, bytes.

All kernels are started, then all are asked at once, by sockets of one process: a client's own work
is a small part, and no kernel waits for the answer of another. (The clients of jupyter_client wait
a fifth of a second for messages that may still come, each after its kernel is ready.)
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq
from jupyter_client.connect import write_connection_file
from jupyter_client.session import Session

from pasture.proc import smaps

TIMEOUT_S = 900
KEY = b"kernels"


def connection_files(folder: Path, count: int) -> Iterator[tuple[str, str]]:
    """Files that name the ports of kernels; each with the address of its shell channel."""
    for number in range(count):
        file = str(folder / f"{number}.json")
        place = f"{folder}/{number}"
        _, settings = write_connection_file(file, ip=place, transport="ipc", key=KEY)
        yield file, f"ipc://{place}-{settings['shell_port']}"


@contextmanager
def running(program: str, files: list[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Kernels, until the end of the block. Without a history on disk: a hundred that begin one at
    once lock each other out of its database, and some end.
    """
    command = [program, "-m", "ipykernel_launcher", "--HistoryManager.hist_file=:memory:", "-f"]
    kernels = [
        subprocess.Popen([*command, file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for file in files
    ]
    try:
        yield kernels
    finally:
        for kernel in kernels:
            kernel.kill()
        for kernel in kernels:
            kernel.wait()


def ask_all(addresses: list[str], kernels: list[subprocess.Popen[bytes]]) -> None:
    """Ask each kernel what it is; returns when all have answered."""
    session = Session(key=KEY)
    context = zmq.Context()
    context.linger = 0
    poller = zmq.Poller()
    waiting = []
    for address in addresses:
        channel = context.socket(zmq.DEALER)
        channel.connect(address)
        session.send(channel, "kernel_info_request", {})
        poller.register(channel, zmq.POLLIN)
        waiting.append(channel)
    end = time.monotonic() + TIMEOUT_S
    while waiting:
        for channel, _ in poller.poll(1000):
            _, answer = session.recv(channel)
            assert answer is not None and answer["content"]["status"] == "ok"
            poller.unregister(channel)
            waiting.remove(channel)
        if time.monotonic() > end or any(kernel.poll() is not None for kernel in kernels):
            sys.exit(f"{len(waiting)} kernels have not answered, or one has ended")
    context.destroy()


def main() -> None:
    """Start them, ask each, end them."""
    program, count = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        files, addresses = zip(*connection_files(Path(folder), count), strict=True)
        began = time.perf_counter()
        with running(program, list(files)) as kernels:
            ask_all(list(addresses), kernels)
            seconds = time.perf_counter() - began
            pss_bytes = smaps.total_pss_bytes([kernel.pid for kernel in kernels])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(seconds, used.ru_utime + used.ru_stime, pss_bytes)


main()
