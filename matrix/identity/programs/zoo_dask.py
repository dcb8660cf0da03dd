"""The zoo in workers of Dask: `zoo_dask.py WORKERS [OPTION ...]` of a `dask worker`."""

import socket
import subprocess
import sys

from distributed import Client


def work():
    import zoo

    return zoo.write()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main():
    number, *options = sys.argv[1:]
    port = free_port()
    dask = [sys.executable, "-m", "dask"]
    local = ("--host", "127.0.0.1")
    scheduler = subprocess.Popen(
        [*dask, "scheduler", *local, "--port", str(port), "--no-dashboard"]
    )
    address = f"tcp://127.0.0.1:{port}"
    words = ("--nworkers", number, "--nthreads", "1", "--no-dashboard", *options)
    worker = subprocess.Popen([*dask, "worker", address, *words])
    try:
        with Client(address, timeout=120) as client:
            client.wait_for_workers(int(number), timeout=120)
            print(sorted(client.run(work).values()), flush=True)
    finally:
        for process in (worker, scheduler):
            process.terminate()
            process.wait(60)


if __name__ == "__main__":
    main()
